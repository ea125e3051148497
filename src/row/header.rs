use super::event::text_of;
use super::fault::{RowFault, Span};
use super::fields::Fields;
use super::lex::{self, Members};
use crate::json::{self, SyntaxError, Text, write_text, write_u64};
use crate::limits::Limits;
use crate::units::{Generation, Seq, UnixMs};

/// The first line of a log, of any generation, checked.
///
/// Spec: `format-spec/04-rows.md`, "Header".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    generation: Generation,
    id: Text,
    created_at: UnixMs,
    cwd: Option<Text>,
    /// In a box, as is the preset: most sessions have neither, and listings hold very many headers.
    parent_session: Option<Box<Text>>,
    seeding: Seeding,
    origin_subagent: bool,
    delegation_depth: u64,
    agent_preset: Option<Box<Text>>,
}

/// Whether a session was forked from another, and where its log says how many events came with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Seeding {
    /// Not a fork.
    #[default]
    Unseeded,
    /// A fork in v0 or v1, with the number of inherited events in the header. May be 0.
    Counted(u64),
    /// A fork in v2: the last marked `session/end-seed` of the log tells.
    Marked,
}

impl Header {
    /// A header with the members that every session has. The id may be any string here; a store cannot hold an empty one.
    ///
    /// # Errors
    /// [`HeaderFault::Member`] for a negative time or one above 2^53 - 1, [`HeaderFault::Newer`] for a generation that this
    /// build does not write.
    pub fn new(generation: Generation, id: Text, created_at: UnixMs) -> Result<Self, HeaderFault> {
        if !generation.is_supported() {
            return Err(HeaderFault::Newer { version: generation.get() });
        }
        let count = u64::try_from(created_at.get()).ok().and_then(Seq::new);
        count.ok_or(HeaderFault::Member(HeaderMember::CreatedAt))?;
        Ok(Self {
            generation,
            id,
            created_at,
            cwd: None,
            parent_session: None,
            seeding: Seeding::Unseeded,
            origin_subagent: false,
            delegation_depth: 0,
            agent_preset: None,
        })
    }

    /// Reads a header line without its newline.
    ///
    /// Members may come in any order. The version is judged before any other member: a header of a newer generation is
    /// [`HeaderFault::Newer`] whatever else it holds. Since every member has to be known and of its type, a number that
    /// JavaScript cannot write back, like `-0` or `1e400`, never gets in.
    ///
    /// # Errors
    /// The first [`HeaderFault`] in this order: length, UTF-8, grammar, version, an unknown member, then the members in
    /// the order of the format's table.
    ///
    /// Spec: `format-spec/04-rows.md`, "Header".
    pub fn parse(line: &[u8], limits: &Limits) -> Result<Self, HeaderFault> {
        let limits = Limits { row_bytes_max: limits.header_bytes_max, ..*limits };
        let text = text_of(line, &limits).map_err(|fault| match fault {
            RowFault::NotUtf8 { offset } => HeaderFault::NotUtf8 { offset },
            _ => HeaderFault::TooLong { max: limits.row_bytes_max },
        })?;
        json::check(line, limits.nesting_max).map_err(HeaderFault::NotJson)?;
        let members = Members::of(text).ok_or(HeaderFault::NotObject)?;

        let fields = Raw(Fields::collect(members, MEMBERS.map(HeaderMember::as_str)));
        let version = fields.get(HeaderMember::Version).ok_or(HeaderFault::Missing(HeaderMember::Version))?;
        let version = lex::count(version).ok_or(HeaderFault::Member(HeaderMember::Version))?;
        let generation = Generation::new(version);
        if !generation.is_supported() {
            return Err(HeaderFault::Newer { version });
        }
        let allowed = |member| match member {
            HeaderMember::SeedLength => generation.has_chunk_events(),
            HeaderMember::IsSeeded => !generation.has_chunk_events(),
            _ => true,
        };
        if let Some(name) = fields.unknown(allowed) {
            return Err(HeaderFault::UnknownMember { name });
        }
        if fields.string(HeaderMember::Type)?.is_none_or(|kind| kind != "session") {
            return Err(fields.fault(HeaderMember::Type));
        }
        let id = fields.string(HeaderMember::Id)?.ok_or(HeaderFault::Missing(HeaderMember::Id))?;
        let created_at = fields.required_count(HeaderMember::CreatedAt)?;
        let created_at =
            i64::try_from(created_at).map_err(|_| HeaderFault::Member(HeaderMember::CreatedAt))?;
        let mut header = Self::new(generation, id, UnixMs::new(created_at))?;
        if let Some(cwd) = fields.string(HeaderMember::Cwd)? {
            header = header.with_cwd(cwd)?;
        }
        header.parent_session = fields.string(HeaderMember::ParentSession)?.map(Box::new);
        header.seeding = if generation.has_chunk_events() {
            fields.count(HeaderMember::SeedLength)?.map_or(Seeding::Unseeded, Seeding::Counted)
        } else {
            match fields.get(HeaderMember::IsSeeded) {
                Some("true") => Seeding::Marked,
                Some("false") => Seeding::Unseeded,
                _ => return Err(fields.fault(HeaderMember::IsSeeded)),
            }
        };
        if let Some(origin) = fields.string(HeaderMember::Origin)? {
            header.origin_subagent = origin == "subagent";
            if !header.origin_subagent {
                return Err(HeaderFault::Member(HeaderMember::Origin));
            }
        }
        header.delegation_depth = fields.required_count(HeaderMember::DelegationDepth)?;
        header.agent_preset = fields.string(HeaderMember::AgentPreset)?.map(Box::new);
        Ok(header)
    }

    /// Appends the header line in the original's member order, without a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"type\":\"session\",\"version\":");
        write_u64(out, self.generation.get());
        write_string_member(out, "id", Some(&self.id));
        write_count_member(out, "createdAt", self.created_at.get().unsigned_abs());
        write_string_member(out, "cwd", self.cwd.as_ref());
        write_string_member(out, "parentSession", self.parent_session.as_deref());
        match (self.generation.has_chunk_events(), self.seeding) {
            (true, Seeding::Counted(cut)) => write_count_member(out, "seedLength", cut),
            (true, _) => {}
            (false, Seeding::Unseeded) => out.extend_from_slice(b",\"isSeeded\":false"),
            (false, _) => out.extend_from_slice(b",\"isSeeded\":true"),
        }
        if self.origin_subagent {
            out.extend_from_slice(b",\"origin\":\"subagent\"");
        }
        write_count_member(out, "delegationDepth", self.delegation_depth);
        write_string_member(out, "agentPreset", self.agent_preset.as_deref());
        out.push(b'}');
    }

    /// The header with the working directory `cwd`.
    ///
    /// # Errors
    /// [`HeaderFault::Member`] unless `cwd` is absolute by the host's rules.
    pub fn with_cwd(self, cwd: Text) -> Result<Self, HeaderFault> {
        if !is_absolute(&cwd) {
            return Err(HeaderFault::Member(HeaderMember::Cwd));
        }
        Ok(Self { cwd: Some(cwd), ..self })
    }

    /// The header with the session that this one was forked from.
    #[must_use]
    pub fn with_parent_session(self, id: Text) -> Self {
        Self { parent_session: Some(Box::new(id)), ..self }
    }

    /// The header marked as made by a subagent.
    #[must_use]
    pub fn with_origin_subagent(self) -> Self {
        Self { origin_subagent: true, ..self }
    }

    /// The header with the name of the agent's preset.
    #[must_use]
    pub fn with_agent_preset(self, preset: Text) -> Self {
        Self { agent_preset: Some(Box::new(preset)), ..self }
    }

    /// The header with another depth of delegation.
    ///
    /// # Errors
    /// [`HeaderFault::Member`] above 2^53 - 1.
    pub fn with_delegation_depth(self, depth: u64) -> Result<Self, HeaderFault> {
        Seq::new(depth).ok_or(HeaderFault::Member(HeaderMember::DelegationDepth))?;
        Ok(Self { delegation_depth: depth, ..self })
    }

    /// The header of the same session in `generation`, seeded as `seeding` says.
    ///
    /// # Errors
    /// [`HeaderFault::Newer`] for a generation that this build does not write, [`HeaderFault::Member`] when that
    /// generation does not store a cut so.
    pub fn with_seeding(self, generation: Generation, seeding: Seeding) -> Result<Self, HeaderFault> {
        if !generation.is_supported() {
            return Err(HeaderFault::Newer { version: generation.get() });
        }
        match (generation.has_chunk_events(), seeding) {
            (_, Seeding::Unseeded) | (false, Seeding::Marked) => {}
            (true, Seeding::Counted(cut)) if cut <= Seq::MAX.get() => {}
            (true, _) => return Err(HeaderFault::Member(HeaderMember::SeedLength)),
            (false, _) => return Err(HeaderFault::Member(HeaderMember::IsSeeded)),
        }
        Ok(Self { generation, seeding, ..self })
    }

    /// What the rows of the log mean.
    #[must_use]
    pub const fn generation(&self) -> Generation {
        self.generation
    }

    /// The session's id: any string, unpaired surrogates included.
    #[must_use]
    pub const fn id(&self) -> &Text {
        &self.id
    }

    /// When the session was created. Not negative.
    #[must_use]
    pub const fn created_at(&self) -> UnixMs {
        self.created_at
    }

    /// The working directory, absolute.
    #[must_use]
    pub const fn cwd(&self) -> Option<&Text> {
        self.cwd.as_ref()
    }

    /// The id of the session that this one was forked from.
    #[must_use]
    pub fn parent_session(&self) -> Option<&Text> {
        self.parent_session.as_deref()
    }

    /// Whether the log begins with inherited events, and where it says how many.
    #[must_use]
    pub const fn seeding(&self) -> Seeding {
        self.seeding
    }

    /// Whether a subagent made the session.
    #[must_use]
    pub const fn is_origin_subagent(&self) -> bool {
        self.origin_subagent
    }

    /// How many delegations lie above the session; 0 for one that a person started.
    #[must_use]
    pub const fn delegation_depth(&self) -> u64 {
        self.delegation_depth
    }

    /// The name of the agent's preset.
    #[must_use]
    pub fn agent_preset(&self) -> Option<&Text> {
        self.agent_preset.as_deref()
    }
}

fn write_string_member(out: &mut Vec<u8>, name: &str, value: Option<&Text>) {
    if let Some(value) = value {
        write_name(out, name);
        write_text(out, value);
    }
}

fn write_count_member(out: &mut Vec<u8>, name: &str, value: u64) {
    write_name(out, name);
    write_u64(out, value);
}

fn write_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// Whether a path is absolute by the host's rules: a leading slash; on Windows also a backslash, or a drive and either.
fn is_absolute(path: &Text) -> bool {
    match path.as_bytes() {
        [b'/', ..] => true,
        [b'\\', ..] | [b'a'..=b'z' | b'A'..=b'Z', b':', b'/' | b'\\', ..] => cfg!(windows),
        _ => false,
    }
}

/// Why a line is not a header that this build can use.
///
/// Offsets count bytes from the start of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderFault {
    /// The line is longer than [`Limits::header_bytes_max`].
    #[error("the header is longer than the {max} bytes allowed")]
    TooLong {
        /// The limit, newline counted.
        max: u64,
    },
    /// The bytes are ill-formed UTF-8.
    #[error("the header is not UTF-8 from byte {offset} on")]
    NotUtf8 {
        /// Bytes before the first ill-formed sequence.
        offset: usize,
    },
    /// The text is not one JSON value.
    #[error("the header is not JSON: {0}")]
    NotJson(SyntaxError),
    /// A JSON value that is not an object.
    #[error("the header is not a JSON object")]
    NotObject,
    /// The generation is newer than this build: intact, and not to be interpreted.
    #[error("the header is of generation {version}, newer than {}, the newest this build reads", Generation::CURRENT.get())]
    Newer {
        /// The stored version.
        version: u64,
    },
    /// A member that the header's generation does not have. Not damage: another version may have written it.
    #[error("the header has a member that its generation does not know, at byte {}", .name.start)]
    UnknownMember {
        /// The member's name as spelled, without its quotes.
        name: Span,
    },
    /// A required member is absent.
    #[error("the header lacks its member \"{0}\"")]
    Missing(HeaderMember),
    /// A member has a value that its rule does not allow.
    #[error("the header's member \"{0}\" must be {rule}", rule = .0.rule())]
    Member(HeaderMember),
}

impl HeaderFault {
    /// Whether the line may be sound and is only beyond this build: a newer generation, an unknown member, a limit.
    ///
    /// The original calls a header with an unknown member malformed; only [`Newer`](Self::Newer) is unsupported to it.
    #[must_use]
    pub const fn is_unsupported(self) -> bool {
        matches!(self, Self::Newer { .. } | Self::UnknownMember { .. } | Self::TooLong { .. })
    }
}

/// Members of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeaderMember {
    /// `type`
    Type,
    /// `version`
    Version,
    /// `id`
    Id,
    /// `createdAt`
    CreatedAt,
    /// `cwd`
    Cwd,
    /// `parentSession`
    ParentSession,
    /// `seedLength`, of v0 and v1
    SeedLength,
    /// `isSeeded`, of v2
    IsSeeded,
    /// `origin`
    Origin,
    /// `delegationDepth`
    DelegationDepth,
    /// `agentPreset`
    AgentPreset,
}

const MEMBERS: [HeaderMember; 11] = [
    HeaderMember::Type,
    HeaderMember::Version,
    HeaderMember::Id,
    HeaderMember::CreatedAt,
    HeaderMember::Cwd,
    HeaderMember::ParentSession,
    HeaderMember::SeedLength,
    HeaderMember::IsSeeded,
    HeaderMember::Origin,
    HeaderMember::DelegationDepth,
    HeaderMember::AgentPreset,
];

impl HeaderMember {
    /// The name as it stands in JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Type => "type",
            Self::Version => "version",
            Self::Id => "id",
            Self::CreatedAt => "createdAt",
            Self::Cwd => "cwd",
            Self::ParentSession => "parentSession",
            Self::SeedLength => "seedLength",
            Self::IsSeeded => "isSeeded",
            Self::Origin => "origin",
            Self::DelegationDepth => "delegationDepth",
            Self::AgentPreset => "agentPreset",
        }
    }

    const fn rule(self) -> &'static str {
        match self {
            Self::Type => "\"session\"",
            Self::Version | Self::CreatedAt | Self::SeedLength | Self::DelegationDepth => {
                "an integer from 0 to 2^53 - 1, and not -0"
            }
            Self::Id | Self::ParentSession | Self::AgentPreset => "a string",
            Self::Cwd => "an absolute path",
            Self::IsSeeded => "true or false",
            Self::Origin => "\"subagent\", or absent",
        }
    }
}

impl std::fmt::Display for HeaderMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The raw members of a header.
struct Raw<'a>(Fields<'a, { MEMBERS.len() }>);

impl<'a> Raw<'a> {
    fn get(&self, member: HeaderMember) -> Option<&'a str> {
        self.0.get(member.as_str())
    }

    /// The first member that the generation does not have: one that no generation has, or one that is not `allowed`.
    fn unknown(&self, allowed: impl Fn(HeaderMember) -> bool) -> Option<Span> {
        let foreign = MEMBERS.into_iter().filter(|member| !allowed(*member));
        self.0.unknown().or_else(|| foreign.filter_map(|member| self.0.span(member.as_str())).next())
    }

    /// The fault of a required member that is absent or wrong.
    fn fault(&self, member: HeaderMember) -> HeaderFault {
        if self.get(member).is_some() { HeaderFault::Member(member) } else { HeaderFault::Missing(member) }
    }

    fn string(&self, member: HeaderMember) -> Result<Option<Text>, HeaderFault> {
        let string = |value| lex::string(value).ok_or(HeaderFault::Member(member));
        Ok(self.get(member).map(string).transpose()?.map(json::Str::to_text))
    }

    fn count(&self, member: HeaderMember) -> Result<Option<u64>, HeaderFault> {
        self.get(member).map(|value| lex::count(value).ok_or(HeaderFault::Member(member))).transpose()
    }

    fn required_count(&self, member: HeaderMember) -> Result<u64, HeaderFault> {
        self.count(member)?.ok_or(HeaderFault::Missing(member))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Header, HeaderFault> {
        Header::parse(line.as_bytes(), &Limits::DEFAULT)
    }

    fn written(header: &Header) -> String {
        let mut out = Vec::new();
        header.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const V0: &str = concat!(
        r#"{"type":"session","version":0,"id":"kid","createdAt":1700000000000,"cwd":"/srv/work","parentSession":"base""#,
        r#","seedLength":2,"origin":"subagent","delegationDepth":1,"agentPreset":"coding"}"#,
    );
    const V2: &str = concat!(
        r#"{"type":"session","version":2,"id":"kid","createdAt":1700000000000,"cwd":"/srv/work","parentSession":"base""#,
        r#","isSeeded":true,"origin":"subagent","delegationDepth":1,"agentPreset":"coding"}"#,
    );

    #[test]
    fn full_headers_are_read_and_written_back() {
        let header = parse(V0).unwrap();
        assert_eq!(header.generation(), Generation::V0);
        assert_eq!(header.id(), &"kid");
        assert_eq!(header.created_at().get(), 1_700_000_000_000);
        assert_eq!(header.cwd().unwrap(), &"/srv/work");
        assert_eq!(header.parent_session().unwrap(), &"base");
        assert_eq!(header.seeding(), Seeding::Counted(2));
        assert!(header.is_origin_subagent());
        assert_eq!(header.delegation_depth(), 1);
        assert_eq!(header.agent_preset().unwrap(), &"coding");
        assert_eq!(written(&header), V0);
        let v2 = parse(V2).unwrap();
        assert_eq!(v2.seeding(), Seeding::Marked);
        assert_eq!(written(&v2), V2);
        assert_eq!(header.with_seeding(Generation::V2, Seeding::Marked).unwrap(), v2);
    }

    #[test]
    fn the_smallest_headers_of_each_generation() {
        for line in [
            r#"{"type":"session","version":0,"id":"","createdAt":0,"delegationDepth":0}"#,
            r#"{"type":"session","version":1,"id":"s","createdAt":5,"seedLength":0,"delegationDepth":0}"#,
            r#"{"type":"session","version":2,"id":"s1","createdAt":5,"isSeeded":false,"delegationDepth":0}"#,
        ] {
            assert_eq!(written(&parse(line).unwrap()), line);
        }
        let new = Header::new(Generation::V2, Text::from("s1"), UnixMs::new(5)).unwrap();
        assert_eq!(
            written(&new),
            r#"{"type":"session","version":2,"id":"s1","createdAt":5,"isSeeded":false,"delegationDepth":0}"#
        );
    }

    #[test]
    fn spelling_and_order_do_not_matter_and_the_last_duplicate_counts() {
        let line = concat!(
            r#" { "agentPreset":"a\ud800b", "delegationDepth":1.0,"createdAt":-0,"createdAt":5e0,"#,
            "\t",
            r#""id":"\u0041\/","isSeeded":false,"typ\u0065":"sess\u0069on","version":2 } "#,
        );
        let header = parse(line).unwrap();
        assert_eq!(header.id(), &"A/");
        assert_eq!(header.agent_preset().unwrap().len_units(), 3);
        assert_eq!(
            written(&header),
            r#"{"type":"session","version":2,"id":"A/","createdAt":5,"isSeeded":false,"delegationDepth":1,"agentPreset":"a\ud800b"}"#
        );
    }

    #[test]
    fn a_newer_version_is_unsupported_before_anything_else_is_looked_at() {
        for line in [
            r#"{"version":3}"#,
            r#"{"type":7,"version":3.0,"strange":-0}"#,
            r#"{"version":9007199254740991}"#,
        ] {
            let fault = parse(line).unwrap_err();
            assert!(matches!(fault, HeaderFault::Newer { .. }), "{line}");
            assert!(fault.is_unsupported());
        }
        for version in ["-1", "1.5", "-0", "\"2\"", "null", "1e400", "9007199254740992", "[]"] {
            let line = format!(r#"{{"version":{version},"strange":1}}"#);
            assert_eq!(parse(&line), Err(HeaderFault::Member(HeaderMember::Version)), "{line}");
        }
        assert_eq!(parse("{}"), Err(HeaderFault::Missing(HeaderMember::Version)));
    }

    #[test]
    fn every_member_has_its_fault() {
        use HeaderMember as M;
        let wrong = HeaderFault::Member;
        for (from, to, fault) in [
            ("\"type\":\"session\",", "", HeaderFault::Missing(M::Type)),
            ("\"session\"", "\"event\"", wrong(M::Type)),
            ("\"id\":\"kid\",", "", HeaderFault::Missing(M::Id)),
            ("\"kid\"", "7", wrong(M::Id)),
            ("\"createdAt\":1700000000000,", "", HeaderFault::Missing(M::CreatedAt)),
            ("1700000000000", "-1", wrong(M::CreatedAt)),
            ("1700000000000", "0.5", wrong(M::CreatedAt)),
            ("\"/srv/work\"", "\"home\"", wrong(M::Cwd)),
            ("\"/srv/work\"", "\"\"", wrong(M::Cwd)),
            ("\"/srv/work\"", "null", wrong(M::Cwd)),
            ("\"base\"", "null", wrong(M::ParentSession)),
            ("\"isSeeded\":true,", "", HeaderFault::Missing(M::IsSeeded)),
            ("\"isSeeded\":true", "\"isSeeded\":1", wrong(M::IsSeeded)),
            ("\"subagent\"", "\"user\"", wrong(M::Origin)),
            ("\"subagent\"", "true", wrong(M::Origin)),
            ("\"delegationDepth\":1,", "", HeaderFault::Missing(M::DelegationDepth)),
            ("\"delegationDepth\":1", "\"delegationDepth\":-0", wrong(M::DelegationDepth)),
            ("\"coding\"", "{}", wrong(M::AgentPreset)),
        ] {
            assert!(V2.contains(from));
            assert_eq!(parse(&V2.replace(from, to)), Err(fault), "{from} -> {to}");
        }
        assert_eq!(parse(&V0.replace(":2,", ":-1,")), Err(wrong(M::SeedLength)));
    }

    #[test]
    fn members_of_other_generations_and_retired_ones_are_unknown() {
        for (line, name) in [
            (V0.replace("seedLength\":2", "isSeeded\":true"), "isSeeded"),
            (V2.replace("isSeeded\":true", "seedLength\":2"), "seedLength"),
            (V0.replace("agentPreset", "sandboxMode"), "sandboxMode"),
            (V2.replace("agentPreset", "__proto__"), "__proto__"),
        ] {
            let fault = parse(&line).unwrap_err();
            let HeaderFault::UnknownMember { name: span } = fault else { panic!("{line}: {fault}") };
            assert_eq!(span.of(line.as_bytes()), name.as_bytes());
            assert!(fault.is_unsupported());
        }
    }

    #[test]
    fn lines_that_are_no_header() {
        assert_eq!(parse("null"), Err(HeaderFault::NotObject));
        assert_eq!(parse("[]"), Err(HeaderFault::NotObject));
        for line in ["", "x", "{", "\u{feff}{}"] {
            assert!(matches!(parse(line), Err(HeaderFault::NotJson(_))), "{line}");
        }
        assert_eq!(Header::parse(b"{\xff", &Limits::DEFAULT), Err(HeaderFault::NotUtf8 { offset: 1 }));
        let mut limits = Limits::DEFAULT;
        limits.header_bytes_max = 200;
        let long = V2.replace("kid", &"k".repeat(300));
        assert_eq!(Header::parse(long.as_bytes(), &limits), Err(HeaderFault::TooLong { max: 200 }));
        limits.header_bytes_max = u64::try_from(V2.len()).unwrap() + 1;
        assert!(Header::parse(V2.as_bytes(), &limits).is_ok());
    }

    #[test]
    fn impossible_headers_cannot_be_built() {
        let new = |generation, ms| Header::new(generation, Text::from("s"), UnixMs::new(ms));
        assert_eq!(new(Generation::V2, -1), Err(HeaderFault::Member(HeaderMember::CreatedAt)));
        assert_eq!(new(Generation::new(3), 1), Err(HeaderFault::Newer { version: 3 }));
        let header = || new(Generation::V2, 1).unwrap();
        assert!(header().with_cwd(Text::from("relative")).is_err());
        assert!(header().with_delegation_depth(1 << 53).is_err());
        assert!(header().with_seeding(Generation::V2, Seeding::Counted(1)).is_err());
        assert!(header().with_seeding(Generation::V1, Seeding::Marked).is_err());
        assert!(header().with_seeding(Generation::V1, Seeding::Counted(1 << 53)).is_err());
        assert!(header().with_seeding(Generation::new(3), Seeding::Marked).is_err());
    }
}
