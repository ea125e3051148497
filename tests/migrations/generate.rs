//! Seeded v0 and v1 logs: sessions as the original wrote them, half of them with something changed.
//!
//! A session is played event by event, so that turns, steps, attempts, tools, compactions and references fit together.
//! v0 sessions use the old forms at random. Then, at random, one or two mutations: aimed ones that break one known rule,
//! and blind ones that change, drop, repeat or swap whatever they hit.

use super::mutate;
use super::value::{Json, Rng, list, n, obj, raw, t};

/// A generated log.
pub(crate) struct Log {
    /// The text, header and rows, as it would stand in a file.
    pub(crate) text: Vec<u8>,
    /// What was done to it beyond playing a session, for the report of a difference.
    pub(crate) mutations: Vec<&'static str>,
    /// A goal message of the old form stands inside an attempt: the packages then change the order of events.
    pub(crate) goal_inside_attempt: bool,
}

/// The log of `seed`.
pub(crate) fn log(seed: u64) -> Log {
    let mut rng = Rng::new(seed);
    let version = u64::from(rng.one_in(2));
    let mut session = Session::new(rng.clone(), version);
    session.play();
    let mut draft = session.finish();
    let mut mutations = Vec::new();
    if rng.one_in(2) {
        for _ in 0..=rng.below(2) {
            mutations.push(mutate::mutate(&mut draft, &mut rng));
        }
    }
    let odd = rng.one_in(4);
    let mut text = String::new();
    for row in std::iter::once(&draft.header).chain(&draft.rows) {
        text.push_str(&if odd { row.to_odd_text(&mut rng) } else { row.to_text() });
        text.push('\n');
    }
    if draft.is_torn && !draft.rows.is_empty() {
        // Half of the last row is missing.
        let last = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        let mut end = last + rng.below(text.len() - last);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    let goal_inside_attempt = has_goal_inside_attempt(&draft.rows);
    Log { text: text.into_bytes(), mutations, goal_inside_attempt }
}

/// Header and rows before they are written.
pub(crate) struct Draft {
    pub(crate) version: u64,
    pub(crate) header: Json,
    pub(crate) rows: Vec<Json>,
    pub(crate) is_torn: bool,
}

const WORDS: &[&str] = &[
    "a",
    "ok",
    "",
    "über",
    "日本",
    "😀",
    "\u{1}d83d",
    "two words",
    "line\nbreak",
    "\"q\"",
    "\u{7}",
    "/",
    "-",
];

struct Call {
    id: String,
    name: String,
    arguments: String,
}

struct Session {
    rng: Rng,
    version: u64,
    id: String,
    has_parent: bool,
    rows: Vec<Json>,
    seq: u64,
    time: i64,
    turn: Option<u64>,
    next_turn: u64,
    step: Option<u64>,
    next_step: u64,
    /// Seqs on the surface, in order, with their type.
    surface: Vec<(u64, &'static str)>,
    humans: Vec<u64>,
    /// Events that can be cited: not chunks, and not held behind an open attempt.
    citable: Vec<u64>,
    /// Places where a cut splits nothing.
    cuts: Vec<u64>,
    ids: u64,
    in_attempt: bool,
    open_compaction: bool,
    /// Old results that can be replaced: seq, message.
    results: Vec<(u64, Json)>,
    goal_revision: u64,
}

impl Session {
    fn new(mut rng: Rng, version: u64) -> Self {
        let id = rng.pick(&["s", "session-1", "ünï", "a/b", "\u{1}dc00x", "s:7"]).to_string();
        let has_parent = rng.one_in(4);
        Self {
            time: 1_790_000_000_000,
            rng,
            version,
            id,
            has_parent,
            rows: Vec::new(),
            seq: 0,
            turn: None,
            next_turn: 1,
            step: None,
            next_step: 1,
            surface: Vec::new(),
            humans: Vec::new(),
            citable: Vec::new(),
            cuts: vec![0],
            ids: 0,
            in_attempt: false,
            open_compaction: false,
            results: Vec::new(),
            goal_revision: 0,
        }
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.rng.one_in(one_in)
    }

    fn word(&mut self) -> &'static str {
        self.rng.pick::<&'static str>(WORDS)
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.ids += 1;
        format!("{prefix}{}", self.ids)
    }

    fn tick(&mut self) -> i64 {
        let step = [0, 1, 2, 7, 30, -4][self.rng.below(6)];
        self.time += step;
        self.time
    }

    /// Appends an event and returns its seq.
    fn push(&mut self, kind: &str, data: Json) -> u64 {
        self.push_with(kind, data, &[])
    }

    fn push_with(&mut self, kind: &str, data: Json, more: &[(&str, Json)]) -> u64 {
        let time = self.tick();
        let mut members = vec![
            ("type".to_owned(), t(kind)),
            ("seq".to_owned(), n(self.seq)),
            ("time".to_owned(), raw(time.to_string())),
            ("data".to_owned(), data),
        ];
        members.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        if self.chance(12) {
            members.push(("ignorable".to_owned(), raw("true")));
        }
        if self.chance(10) {
            let (a, b) = (self.rng.below(members.len()), self.rng.below(members.len()));
            members.swap(a, b);
        }
        self.rows.push(Json::Object(members));
        self.seq += 1;
        if !self.in_attempt {
            self.citable.push(self.seq - 1);
            self.cuts.push(self.seq);
        }
        self.seq - 1
    }

    fn surface(&mut self, kind: &'static str, name: &str, data: Json, sources: Option<Json>) -> u64 {
        let mut more = vec![("surfaceOp", t("append"))];
        if let Some(sources) = sources {
            let at = self.rng.below(2);
            more.insert(at, ("sourceEventSeqs", sources));
        }
        let seq = self.push_with(name, data, &more);
        self.surface.push((seq, kind));
        seq
    }

    fn play(&mut self) {
        if self.chance(3) {
            self.fillers(4);
        }
        for _ in 0..self.rng.below(4) {
            self.turn();
            if self.chance(3) {
                self.compaction();
            }
            if self.chance(4) {
                self.end_seed();
            }
            self.fillers(3);
            if self.chance(3) {
                self.title();
            }
            if self.chance(5) {
                self.restart();
            }
        }
    }

    fn finish(mut self) -> Draft {
        let mut header = obj! {
            "type": t("session"), "version": n(self.version), "id": t(&self.id), "createdAt": n(1_790_000_000_000)
        };
        if self.chance(2) {
            header.set("cwd", t(self.rng.pick(&["/", "/srv/x", "/ü"])));
        }
        if self.has_parent {
            header.set("parentSession", t(self.rng.pick(&["parent", ""])));
        }
        let seeded = if self.has_parent { !self.chance(4) } else { self.chance(6) };
        if seeded {
            let mut cuts = self.cuts.clone();
            cuts.push(self.seq);
            // A boundary event at the cut is what forks had.
            let marked = self.rows.iter().filter(|row| row.get("type") == Some(&t("session/end-seed")));
            cuts.extend(
                marked
                    .filter_map(|row| row.get("seq").and_then(Json::number))
                    .flat_map(|seq| [seq, seq, seq]),
            );
            header.set("seedLength", n(*self.rng.pick(&cuts)));
        }
        if self.chance(5) {
            header.set("origin", t("subagent"));
        }
        header.set("delegationDepth", n([0, 0, 3][self.rng.below(3)]));
        if self.chance(5) {
            header.set("agentPreset", t(self.word()));
        }
        Draft { version: self.version, header, rows: self.rows, is_torn: self.rng.one_in(40) }
    }

    fn end_seed(&mut self) {
        self.push("session/end-seed", obj! {});
    }

    fn turn(&mut self) {
        let turn = self.next_turn;
        let mut data = obj! { "turn": n(turn) };
        if self.version == 0 && self.chance(4) {
            data.set("trigger", obj! { "kind": t(self.rng.pick(&["message", "goal"])), "x": n(1) });
        }
        self.push("turn/start", data);
        self.turn = Some(turn);
        self.next_step = 1;
        if self.chance(5) {
            self.goal_message();
        } else if !self.chance(8) {
            self.human_message();
        }
        for _ in 0..self.rng.below(3) {
            self.step();
            if self.chance(6) {
                self.replace_result();
            }
            if self.chance(5) {
                self.compaction();
            }
            self.fillers(1);
        }
        if self.chance(20) {
            // Left open: a crash.
            self.turn = None;
            self.next_turn += 1;
            self.restart_after_crash(turn);
            return;
        }
        let reason = self.turn_reason();
        let turn_first = !self.chance(6);
        let data = if turn_first {
            obj! { "turn": n(turn), "reason": reason }
        } else {
            obj! { "reason": reason, "turn": n(turn) }
        };
        self.push("turn/end", data);
        self.turn = None;
        self.next_turn += 1;
    }

    /// A turn that a crash left open is closed by the next one, in the way that a restart wrote it.
    fn restart_after_crash(&mut self, open: u64) {
        let inserted = list(vec![self.user_payload()]);
        self.push(
            "agent/inbox/spliced",
            obj! { "target": t("next-turn"), "start": n(0), "inserted": inserted },
        );
        self.push("turn/start", obj! { "turn": n(open + 1) });
        self.turn = Some(open + 1);
        self.next_step = 1;
        self.human_message();
        self.push("turn/end", obj! { "turn": n(open + 1), "reason": obj! { "kind": t("completed") } });
        self.turn = None;
        self.next_turn = open + 2;
    }

    fn restart(&mut self) {
        let turn = self.next_turn;
        self.push("turn/start", obj! { "turn": n(turn) });
        self.restart_after_crash(turn);
    }

    fn turn_reason(&mut self) -> Json {
        let failure = obj! { "message": t("m"), "code": t("C") };
        let mut reasons = vec![
            obj! { "kind": t("completed") },
            obj! { "kind": t("blocked") },
            obj! { "kind": t("max-tokens") },
            obj! { "kind": t("interrupted") },
            obj! { "kind": t("aborted"), "reason": obj! { "kind": t("user") } },
            obj! { "kind": t("aborted"), "reason": obj! { "kind": t("hook"), "reason": t("") } },
            obj! { "kind": t("error"), "error": failure.clone() },
            obj! { "kind": t("vendor"), "seq": n(3) },
        ];
        if self.version == 0 {
            let mut full = failure.clone();
            full.set("status", n(503));
            full.set("requestId", t("r"));
            reasons.extend([
                obj! { "kind": t("aborted") },
                obj! { "kind": t("disposed") },
                obj! { "kind": t("error"), "step": n(1), "failure": full },
                obj! { "kind": t("error"), "step": n(1), "message": t("m") },
                obj! { "code": t("X"), "kind": t("error"), "step": n(1), "message": t("m") },
            ]);
        }
        self.rng.pick(&reasons).clone()
    }

    fn content(&mut self) -> Json {
        let mut blocks = Vec::new();
        for _ in 0..self.rng.below(3) {
            blocks.push(match self.rng.below(5) {
                0 | 1 => obj! { "type": t("text"), "text": t(self.word()) },
                2 => obj! { "type": t("image"), "attachment": obj! {
                    "attachmentId": t("i"), "mediaType": t("image/png"), "bytes": n(3), "width": n(1), "height": n(2)
                } },
                3 => obj! { "type": t("vendor"), "seq": n(0), "10": n(1), "9": list(vec![raw("1.5"), raw("1e21")]) },
                _ => obj! { "type": t("tool-result"), "toolCallId": t("n"), "content": list(vec![
                    obj! { "type": t("tool-result"), "toolCallId": t("m"), "content": list(vec![]), "isError": raw("false") }
                ]) },
            });
        }
        list(blocks)
    }

    fn source(&mut self) -> Json {
        let reference = obj! {
            "sessionId": t("other"), "label": t("l"), "capturedThroughSeq": raw("null"), "compacted": raw("false"),
            "originalMessages": n(3), "retainedMessages": n(2), "omittedMessages": n(1), "omittedBytes": n(0),
            "truncated": raw("true"), "inputIndex": n(0)
        };
        let mut with_version = reference.clone();
        if self.version == 1 {
            with_version.set("capturedFormatVersion", n(1));
        }
        let sources = [
            obj! { "kind": t("user") },
            obj! { "kind": t("user") },
            obj! { "kind": t("user"), "rpcId": t("r"), "clientTimeZone": t("UTC") },
            obj! { "kind": t("plugin"), "plugin": t("p") },
            obj! { "kind": t("plugin"), "plugin": t("p"), "form": t("notice"), "summary": t("") },
            obj! { "kind": t("plugin"), "plugin": t("p"), "form": t("snapshot"),
            "sections": list(vec![obj! { "name": t("n"), "text": t("") }]) },
            obj! { "kind": t("team-message"), "teamId": t("t"), "messageId": t("m"), "senderId": t("s"), "senderName": t("") },
            obj! { "kind": t("vendor-source"), "messageSeqs": list(vec![n(0)]) },
            obj! { "kind": t("webhook"), "provider": t("p"), "source": t("s"), "deliveryId": t("d"), "ruleId": t("r"),
            "form": t("notice"), "summary": t("") },
            obj! { "kind": t("skill-catalog"), "form": t("catalog"), "entries": list(vec![obj! { "name": t("n"),
            "description": t("") }]), "update": raw("true") },
            obj! { "kind": t("agent-instructions"), "form": t("instructions"),
            "changes": list(vec![obj! { "action": t("set"), "scope": t(""), "path": t("") }]) },
            obj! { "kind": t("session-reference"), "form": t("recall"), "version": n(1), "references": list(vec![reference]) },
            obj! { "kind": t("session-reference"), "form": t("recall"), "version": n(1), "references": list(vec![with_version]) },
            obj! { "kind": t("goal"), "goalId": t("g"), "revision": n(1), "round": n(1) },
            obj! { "kind": t("coordinator"), "form": t("relay"), "senderSessionId": t("s") },
            obj! { "kind": t("subagent-settled"), "form": t("notice"), "summary": t(""), "senderSessionId": t("s") },
        ];
        self.rng.pick(&sources).clone()
    }

    fn user_payload(&mut self) -> Json {
        let id = self.fresh("u");
        let source = self.source();
        let content = self.content();
        obj! { "id": t(&id), "role": t("user"), "content": content, "source": source }
    }

    fn citation(&mut self) -> Option<Json> {
        if self.citable.is_empty() || !self.chance(5) {
            return None;
        }
        let mut seqs: Vec<u64> = (0..=self.rng.below(4)).map(|_| *self.rng.pick(&self.citable)).collect();
        seqs.sort_unstable();
        seqs.dedup();
        if self.chance(3) {
            seqs.reverse();
        }
        Some(stored_list(&seqs, &mut self.rng))
    }

    fn human_message(&mut self) {
        let mut data = self.user_payload();
        let is_human = data.get("source").and_then(|source| source.get("kind")) == Some(&t("user"));
        let mut name = "user/message";
        if self.version == 0 {
            match self.rng.below(5) {
                0 => {
                    data.remove("id");
                    data.remove("role");
                }
                1 => {
                    name = "steering/message";
                    let turn = n(self.turn.unwrap_or(1));
                    data = if self.chance(2) {
                        obj! { "turn": turn, "message": data }
                    } else {
                        obj! { "turn": turn, "content": data.remove("content").expect("content"),
                        "source": data.remove("source").expect("source") }
                    };
                }
                _ => {}
            }
        }
        let sources = self.citation();
        let seq = self.surface("user/message", name, data, sources);
        if is_human {
            self.humans.push(seq);
        }
    }

    fn goal_message(&mut self) {
        self.goal_revision += 1;
        let change = if self.chance(4) {
            obj! {
                "kind": t("goal/change"), "version": n(1), "operation": t("clear"),
                "cleared": obj! { "id": t("g"), "revision": n(self.goal_revision) }, "clearedAt": n(9)
            }
        } else {
            let mut goal = obj! {
                "id": t("g"), "revision": n(self.goal_revision), "objective": t("über \"x\""), "phase": t("active"), "maxGoalRounds": n(5)
            };
            if self.chance(3) {
                goal.set("phase", t("blocked"));
                goal.set("blockedReason", obj! { "code": t("c"), "message": t("m") });
            }
            obj! {
                "kind": t("goal/change"), "version": n(1), "operation": t(self.rng.pick(&["create", "edit", "block"])),
                "updatedAt": n(4), "goal": goal, "roundsStarted": n(0), "createdAt": n(3)
            }
        };
        let stated = match change.get("cleared") {
            Some(cleared) => obj! { "cleared": cleared.clone(), "clearedAt": n(9) },
            None => obj! {
                "goal": change.get("goal").expect("a goal").clone(), "roundsStarted": n(0), "createdAt": n(3), "updatedAt": n(4)
            },
        };
        let text = format!("<goal_state>{}</goal_state>", stated.to_text());
        let source = obj! { "kind": t("goal"), "goalId": t("g"), "revision": n(self.goal_revision), "round": n(0), "change": change };
        let id = self.fresh("g");
        let data = obj! {
            "id": t(&id), "role": t("user"), "content": list(vec![obj! { "type": t("text"), "text": t(&text) }]), "source": source
        };
        self.surface("user/message", "user/message", data, None);
    }

    fn step(&mut self) {
        let (turn, step) = (self.turn.expect("a turn is open"), self.next_step);
        self.push("step/start", obj! { "turn": n(turn), "step": n(step) });
        self.step = Some(step);
        if self.chance(3) {
            self.human_message();
        }
        self.request_header();
        if self.chance(4) {
            self.push(
                "request/context",
                obj! { "provider": t("acme"), "model": t("m"), "contextWindow": n(1000) },
            );
        }
        if self.chance(4) {
            self.failed_attempts(turn, step);
        }
        match self.rng.below(10) {
            0 => {
                self.chunks(turn, step, false);
            }
            1 => {}
            _ => self.settled_attempt(turn, step),
        }
        self.push("step/end", obj! { "turn": n(turn), "step": n(step) });
        self.in_attempt = false;
        self.step = None;
        self.next_step += 1;
        if self.chance(8) {
            // A retry that comes after its step.
            self.failed_retry(turn, step);
        }
    }

    fn request_header(&mut self) {
        let mut header =
            obj! { "config": obj! { "provider": t("acme"), "model": t("m"), "temperature": raw("0.5") } };
        if self.chance(2) {
            header.set("system", t(self.word()));
        }
        if self.chance(3) {
            header.set(
                "tools",
                list(vec![obj! { "name": t("x"), "description": t(""), "parameters": obj! { "2": n(1),
                "1": raw("null") } }]),
            );
        }
        if self.version == 0 && self.chance(6) {
            header.set("messagePrefix", list(vec![n(1)]));
        }
        let reason = t(self.rng.pick(&["initial", "resume", "change", "series"]));
        self.push("request/header", obj! { "header": header, "reason": reason });
    }

    fn failed_attempts(&mut self, turn: u64, step: u64) {
        let policy = self.rng.pick(&["default", "other"]).to_string();
        let own_id = if self.version == 0 && self.chance(2) { None } else { Some(self.fresh("retry")) };
        let mut id = own_id.clone();
        for retry in 1..=1 + u64::try_from(self.rng.below(2)).expect("small") {
            self.chunks(turn, step, retry == 1);
            let seq = self.seq;
            id.get_or_insert_with(|| format!("legacy-retry:{}:{seq}", self.id));
            self.retry(turn, step, &policy, retry, own_id.as_deref());
            self.in_attempt = false;
            if self.chance(2) {
                let id = id.clone().expect("an id");
                self.push(
                    "llm/retry-started",
                    obj! { "retryId": t(&id), "turn": n(turn), "step": n(step), "retry": n(retry) },
                );
            }
        }
    }

    fn failed_retry(&mut self, turn: u64, step: u64) {
        let id = self.fresh("late");
        self.retry(turn, step, "late", 1, Some(&id));
    }

    fn retry(&mut self, turn: u64, step: u64, policy: &str, retry: u64, id: Option<&str>) {
        let mut data = obj! {
            "turn": n(turn), "step": n(step), "provider": t("acme"), "mode": t("always"), "policyKey": t(policy), "retry": n(retry),
            "delayMs": raw("0.5"), "failure": obj! { "message": t("busy"), "code": t("SERVER") }
        };
        if self.chance(2) {
            data.set("mode", t("normal"));
            data.set("maxRetries", n(3));
        }
        if let Some(id) = id {
            data.set("retryId", t(id));
        }
        self.in_attempt = false;
        self.push("llm/retry", data);
    }

    /// The chunks of one attempt, packed or not, with other events between them. Returns their seqs and what they hold.
    fn chunks(&mut self, turn: u64, step: u64, fails: bool) -> (Vec<u64>, Vec<Json>, Option<Json>) {
        let mut timed = Vec::new();
        let mut content = Vec::new();
        for index in 0..self.rng.below(3) {
            let index = n(u64::try_from(index).expect("small"));
            let (kind, id, name) = match self.rng.below(4) {
                0 => ("reasoning", String::new(), None),
                1 => ("tool-call", self.fresh("call"), if self.chance(4) { None } else { Some("go") }),
                _ => ("text", String::new(), None),
            };
            timed.push(obj! { "type": t("block-start"), "index": index.clone(), "blockType": t(kind) });
            let mut text = String::new();
            for _ in 0..self.rng.below(6) {
                let part =
                    if kind == "tool-call" { *self.rng.pick(&["{", "}", "1", ""]) } else { self.word() };
                text.push_str(part);
                let delta = match kind {
                    "tool-call" => {
                        let mut delta = obj! { "type": t("tool-call-delta"), "index": index.clone(), "id": t(&id),
                        "argumentsDelta": t(part) };
                        if let Some(name) = name {
                            delta.set("name", t(name));
                        }
                        delta
                    }
                    _ => {
                        obj! { "type": t(format!("{kind}-delta")), "index": index.clone(), "text": t(part) }
                    }
                };
                timed.push(delta);
            }
            let block = match kind {
                "tool-call" => obj! { "type": t(kind), "id": t(&id), "name": t("go"), "arguments": t(&text) },
                _ => obj! { "type": t(kind), "text": t(&text) },
            };
            timed.push(obj! { "type": t("block-end"), "index": index, "block": block.clone() });
            content.push(block);
        }
        let usage = self.chance(2).then(|| obj! { "inputTokens": n(9), "outputTokens": n(4) });
        if let Some(usage) = &usage {
            timed.push(obj! { "type": t("usage"), "usage": usage.clone() });
        }
        if !fails || self.chance(2) {
            let reason = if fails {
                obj! { "kind": t("error"), "failure": obj! { "message": t("m"), "code": t("c") } }
            } else {
                let calls = content.iter().any(|block| block.get("type") == Some(&t("tool-call")));
                obj! { "kind": t(if calls { "tool-calls" } else { "stop" }) }
            };
            timed.push(obj! { "type": t("finish"), "reason": reason });
        }
        let mut seqs = Vec::new();
        let mut at = 0;
        while at < timed.len() {
            self.in_attempt = true;
            let run = run_len(&timed[at..]);
            let packed = if run > 0 && self.chance(2) { 1 + self.rng.below(run) } else { 0 };
            seqs.push(self.seq);
            if packed > 0 {
                self.packed(turn, step, &timed[at..at + packed]);
                seqs.extend(seqs.last().expect("one") + 1..self.seq);
                at += packed;
            } else {
                let data = obj! { "turn": n(turn), "step": n(step), "chunk": timed[at].clone() };
                self.push("assistant/chunk", data);
                at += 1;
            }
            if self.chance(12) && at < timed.len() {
                self.filler();
            }
        }
        (seqs, content, usage)
    }

    fn packed(&mut self, turn: u64, step: u64, deltas: &[Json]) {
        let first = &deltas[0];
        let kind = match first.get("type") {
            Some(Json::Text(kind)) => kind.strip_suffix("-delta").expect("a delta").to_owned(),
            _ => unreachable!("chunks have types"),
        };
        let time0 = self.tick();
        let mut gaps = Vec::new();
        for _ in 1..deltas.len() {
            let before = self.time;
            let after = self.tick();
            gaps.push(raw((after - before).to_string()));
        }
        let mut data = obj! { "turn": n(turn), "step": n(step),
        "index": first.get("index").expect("an index").clone(), "dt": list(gaps) };
        let member = if kind == "tool-call" {
            data.set("id", first.get("id").expect("an id").clone());
            if let Some(name) = first.get("name") {
                data.set("name", name.clone());
            }
            "argumentsDelta"
        } else {
            "text"
        };
        let fragments = deltas.iter().map(|delta| delta.get(member).expect("a fragment").clone()).collect();
        data.set(if kind == "tool-call" { "args" } else { "texts" }, list(fragments));
        self.rows.push(obj! { "type": t(format!("{kind}-chunks")), "seq0": n(self.seq),
        "time0": raw(time0.to_string()), "data": data });
        self.seq += u64::try_from(deltas.len()).expect("small");
    }

    fn settled_attempt(&mut self, turn: u64, step: u64) {
        let (seqs, content, usage) = self.chunks(turn, step, false);
        if self.chance(10) {
            self.filler();
        }
        let calls: Vec<Call> = content.iter().filter_map(call_of).collect();
        let origin = obj! { "kind": t("model"), "provider": t("acme"), "model": t("m") };
        let id = self.fresh("a");
        let mut data = if self.version == 0 && self.chance(4) {
            let mut provenance = origin.clone();
            if self.chance(2) {
                provenance.remove("kind");
            }
            obj! { "turn": n(turn), "content": list(content), "step": n(step), "provenance": provenance }
        } else {
            obj! { "turn": n(turn), "step": n(step), "message": obj! {
                "id": t(&id), "role": t("assistant"), "content": list(content), "source": origin
            } }
        };
        if let Some(usage) = usage {
            data.set("usage", usage);
        }
        if self.chance(20) {
            data.set("interrupted", raw("true"));
        }
        self.in_attempt = false;
        let sources = if seqs.is_empty() {
            if self.chance(2) { Some(list(vec![])) } else { None }
        } else {
            Some(stored_list(&seqs, &mut self.rng))
        };
        self.surface("assistant/message", "assistant/message", data, sources);
        for call in calls {
            self.tool(turn, step, &call);
        }
    }

    fn tool(&mut self, turn: u64, step: u64, call: &Call) {
        self.push(
            "tool/call",
            obj! { "turn": n(turn), "step": n(step), "callId": t(&call.id), "name": t(&call.name),
            "arguments": t(&call.arguments) },
        );
        if self.chance(4) {
            self.push(
                "approval/asked",
                obj! { "id": t("ap"), "toolName": t("go"), "callId": t(&call.id), "reason": t("") },
            );
            self.push("approval/decided", obj! { "id": t("ap"), "outcome": t("allowed-once") });
        }
        if self.chance(4) {
            let sub = self.fresh("sub");
            let mut data = obj! {
                "rootCallId": t(&call.id), "parentCallId": t(&call.id), "subCallId": t(&sub), "name": t("x"),
                "arguments": obj! { "b": n(1), "a": list(vec![raw("1.5")]) }
            };
            self.push("tool/code-dispatch-start", data.clone());
            if self.chance(2) {
                let inner = self.fresh("sub");
                let nested = obj! { "rootCallId": t(&call.id), "parentCallId": t(&sub), "subCallId": t(&inner),
                "name": t("y"), "arguments": raw("null") };
                self.push("tool/code-dispatch-start", nested);
            }
            data.set("arguments", obj! { "a": list(vec![raw("1.5")]), "b": n(1) });
            data.set("isError", raw("false"));
            data.set("content", list(vec![]));
            self.push("tool/code-dispatch", data);
        }
        let content = self.content();
        let is_error = raw(if self.chance(4) { "true" } else { "false" });
        let message_id = self.fresh("r");
        let seq = self.seq;
        let message = result_message(&message_id, &call.id, content.clone(), is_error.clone());
        let mut data = if self.version == 0 && self.chance(3) {
            let data = obj! { "turn": n(turn), "callId": t(&call.id), "step": n(step), "content": content, "isError": is_error.clone() };
            let id = format!("legacy-message:{}:{seq}", self.id);
            self.results.push((seq, result_message(&id, &call.id, list(vec![]), is_error)));
            data
        } else {
            self.results.push((seq, message.clone()));
            obj! { "turn": n(turn), "step": n(step), "message": message }
        };
        if self.chance(4) {
            data.set("meta", obj! { "any": list(vec![n(1), raw("null")]) });
        }
        if self.chance(6) {
            data.set("error", obj! { "name": t("E"), "code": t("C") });
        }
        let sources = self.citation();
        self.surface("tool/result", "tool/result", data, sources);
    }

    /// A pruned result in the place of a former one.
    fn replace_result(&mut self) {
        let Some((old, message)) = self.results.pop() else { return };
        let Some(at) = self.surface.iter().position(|(seq, _)| *seq == old) else { return };
        let turn = n(self.turn.expect("a turn is open"));
        let mut data = obj! { "turn": turn, "step": n(1), "message": message.clone() };
        if self.version == 0 && self.chance(2) {
            let call = message.get("source").and_then(|source| source.get("callId")).expect("a call").clone();
            data = obj! { "turn": data.remove("turn").expect("a turn"), "step": n(1), "callId": call,
            "content": list(vec![]), "isError": raw("false") };
        }
        let op = obj! { "op": t("replace"), "start": n(old), "end": n(old) };
        let seq = self.push_with(
            "tool/result",
            data,
            &[("sourceEventSeqs", list(vec![n(old)])), ("surfaceOp", op)],
        );
        self.surface[at] = (seq, "tool/result");
        self.results.push((seq, message));
    }

    fn compaction(&mut self) {
        if self.open_compaction {
            return;
        }
        let turn = self.turn.map_or(raw("null"), n);
        let renamed = self.version == 0 && self.chance(2);
        let without_id = self.version == 0 && self.chance(2);
        let name = |rest: &str| format!("{}/{rest}", if renamed { "compact" } else { "compaction" });
        let id = if without_id {
            format!("legacy-compaction:{}:{}", self.id, self.seq)
        } else {
            self.fresh("compaction")
        };
        let with_id = |mut data: Json| {
            if !without_id {
                data.set("compactionId", t(&id));
            }
            data
        };
        self.push(&name("start"), with_id(obj! { "turn": turn.clone() }));
        if self.chance(8) {
            // Given up: a later boundary closes it.
            self.end_seed();
            return;
        }
        if self.surface.len() >= 2 && !self.chance(3) {
            let first = self.rng.below(self.surface.len());
            let last = first + self.rng.below(self.surface.len() - first);
            let slice: Vec<u64> = self.surface[first..=last].iter().map(|(seq, _)| *seq).collect();
            let shadowed = |data: &mut Json| {
                data.set("shadowedRange", obj! { "start": n(slice[0]), "end": n(slice[slice.len() - 1]) });
                data.set("shadowedSeqs", list(slice.iter().map(|seq| n(*seq)).collect()));
                data.set("shadowedTokenCount", n(7));
            };
            let mut data = with_id(
                obj! { "summary": list(vec![obj! { "type": t("text"), "text": t("sum") }]), "provider": t("acme"), "model": t("m") },
            );
            shadowed(&mut data);
            self.push(&name("summary"), data);
            if self.chance(2) {
                let mut source = obj! { "kind": t("plugin"), "plugin": t("compact") };
                if !without_id {
                    source.set("compactionId", t(&id));
                }
                let message_id = self.fresh("c");
                let data = obj! { "id": t(&message_id), "role": t("user"), "content": list(vec![]), "source": source };
                let op = obj! { "op": t("replace"), "start": n(slice[0]), "end": n(slice[slice.len() - 1]) };
                let mut cited = slice.clone();
                cited.sort_unstable();
                let cited = stored_list(&cited, &mut self.rng);
                let seq =
                    self.push_with("user/message", data, &[("sourceEventSeqs", cited), ("surfaceOp", op)]);
                self.surface.splice(first..=last, [(seq, "user/message")]);
            }
            self.push(&name("end"), with_id(obj! { "turn": turn }));
        } else {
            self.push(&name("end"), with_id(obj! { "turn": turn, "error": t("") }));
        }
        if self.chance(3) && !self.surface.is_empty() {
            let (seq, _) = *self.rng.pick(&self.surface);
            let data = obj! { "shadowedRange": obj! { "start": n(seq), "end": n(seq) },
            "shadowedSeqs": list(vec![n(seq)]), "shadowedTokenCount": n(0) };
            self.push(&name("prune"), data);
        }
    }

    fn title(&mut self) {
        let cited: Vec<Json> = self.humans.iter().take(3).map(|seq| n(*seq)).collect();
        if cited.is_empty() {
            self.push(
                "session/title",
                obj! { "title": t("T"), "messageSeqs": list(vec![]), "source": obj! { "kind": t("user") } },
            );
            return;
        }
        if self.chance(2) {
            let message = obj! {
                "id": t("x"), "role": t("user"), "content": list(vec![obj! { "type": t("text"), "text": t("any") }]),
                "source": obj! { "kind": t("plugin"), "plugin": t("dsh-session-title-llm") }
            };
            self.push("session/title-llm-request", obj! {
                "titleProvider": t("llm"), "messageSeqs": list(cited.clone()), "route": obj! { "provider": t("acme"), "model": t("m") },
                "system": t(""), "messages": list(vec![message]), "maxTokens": n(20)
            });
        }
        let source = [obj! { "kind": t("fallback") }, obj! { "kind": t("provider"), "provider": t("llm") }]
            [self.rng.below(2)]
        .clone();
        self.push("session/title", obj! { "title": t("T"), "messageSeqs": list(cited), "source": source });
    }

    fn fillers(&mut self, most: usize) {
        for _ in 0..self.rng.below(most + 1) {
            self.filler();
        }
    }

    /// An event that may stand anywhere.
    fn filler(&mut self) {
        let provider_model = || obj! { "provider": t("acme"), "model": t("m") };
        let team = |member: &str, value: Json| {
            let mut data = obj! { "version": n(1), "teamId": t("t") };
            data.set(member, value);
            data
        };
        match self.rng.below(40) {
            0 => {
                let text = ["a", "b\u{1}dcff", "c"][self.rng.below(3)];
                self.push("feedback/record", obj! { "text": t(text) });
            }
            1 | 35 | 36 => self.command(),
            2 => {
                let preset = t(self.word());
                self.push("agent-preset/selected", obj! { "agentPreset": preset });
            }
            3 => {
                let inserted = list(vec![self.user_payload()]);
                let mut data = obj! { "target": t("next-step"), "start": n(0), "inserted": inserted };
                if self.chance(2) {
                    data.set("removedCount", n(1));
                    data.set("outcome", t("canceled"));
                }
                self.push("agent/inbox/spliced", data);
            }
            4 => _ = self.push("approval/policy", obj! { "policy": t("ask"), "source": t("delegation") }),
            5 => _ = self.push("goal/change", obj! {
                "kind": t("goal/change"), "version": n(1), "operation": t("clear"), "cleared": obj! { "id": t("g"),
                    "revision": n(1) }, "clearedAt": n(1)
            }),
            6 => _ = self.push("hook/invoked", obj! { "turn": n(1), "point": t("p"), "dialect": t("codex"),
                "handlerId": t("h"), "matcher": t("") }),
            7 => _ = self.push("hook/result", obj! { "turn": n(1), "point": t("p"), "handlerId": t("h"),
                "decision": t("d"), "durationMs": raw("1.25"), "exitCode": raw("-1") }),
            8 => {
                let mut data = provider_model();
                data.set("reasoningEffort", t("low"));
                self.push("model/selection", data);
            }
            9 => _ = self.push("permission/preset", obj! { "preset": t("p") }),
            10 => _ = self.push("plan/mode", obj! { "active": raw("true") }),
            11 => _ = self.push("sandbox/mode", obj! { "mode": t("read-only"), "source": t("delegation") }),
            12 => {
                let schedule = obj! { "id": t("s"), "kind": t("every"), "prompt": t("p"), "everySeconds": n(300),
                    "scheduledAt": t("2026-02-28T23:59:59.999Z") };
                self.push("schedule/change", obj! { "version": n(1), "operation": t("create"), "schedule": schedule });
            }
            13 => _ = self.push("schedule/change", obj! { "version": n(1), "operation": t("dispatch"), "id": t("s"),
                "acceptedAt": t("2024-02-29T00:00:00.000Z") }),
            14 | 15 => self.delivery(),
            16 => _ = self.push("subagent/descriptor", obj! { "mode": t("one-shot"), "version": n(3),
                "provider": t("p"), "label": t("") }),
            17 => _ = self.push("subagent/descriptor", obj! {
                "mode": t("continuable"), "version": n(3), "provider": t("p"), "label": t("l"),
                    "agentProvider": t("a"), "agentModel": t("m"),
                "toolFilter": obj! { "allow": list(vec![t("x")]) }
            }),
            18 => _ = self.push("subagent/model-selection-policy", obj! { "allowedModels": list(vec![provider_model()]) }),
            19 => _ = self.push("team/member", team("member", obj! {
                "id": t("m"), "name": t(""), "description": t(""), "provider": t(""), "context": t("fork"),
                    "phase": t("failed"), "error": t("")
            })),
            20 => {
                let mut data = team("messageId", t("q"));
                data.set("targetId", t("n"));
                self.push("team/message/delivered", data);
            }
            21 => _ = self.push("team/message/queued", team("message", obj! {
                "id": t("q"), "senderId": t("m"), "senderName": t(""), "targetId": t("n"), "delivery": t("quiet"), "content": list(vec![])
            })),
            22 => _ = self.push("team/task", team("task", obj! {
                "id": t("k"), "revision": n(1), "subject": t(""), "description": t(""), "status": t("pending"),
                    "blockedBy": list(vec![t("j")]), "writeScopes": list(vec![])
            })),
            23 => _ = self.push("todo/write", obj! { "todos": list(vec![obj! { "content": t("c"), "status": t("pending") }]) }),
            24 => _ = self.push("tool-workflow/run-start", obj! { "runId": t("r"), "name": t("n") }),
            25 => _ = self.push("tool-workflow/run-end", obj! { "runId": t("r"), "stopReason": t("completed") }),
            26 => _ = self.push("tool-workflow/agent-start", obj! { "runId": t("r"), "seq": n(1), "label": t(""),
                "childId": t("c"), "phase": t("") }),
            27 => _ = self.push("tool-workflow/agent-end", obj! { "runId": t("r"), "seq": n(1), "outcome": t("failed") }),
            28 => {
                let message = obj! { "role": t("user"), "content": list(vec![obj! { "type": t("text"), "text": t("q") }]) };
                let tool = obj! { "type": t("web_search_20250305"), "name": t("web_search"), "max_uses": n(1) };
                let body = obj! { "model": t("m"), "max_tokens": n(8), "messages": list(vec![message]), "tools": list(vec![tool]) };
                self.push("web/deepseek-search-llm-request", obj! { "endpoint": t("e"), "apiVersion": t("v"), "body": body });
            }
            29 if self.turn.is_none() => self.end_seed(),
            30 if self.step.is_none() || self.in_attempt => self.human_message(),
            31 if self.chance(6) => self.goal_message(),
            32 | 37 | 38 if !self.in_attempt && self.step.is_none() => self.title(),
            _ => _ = self.push("feedback/record", obj! { "text": t("x") }),
        }
    }

    fn command(&mut self) {
        let id = self.fresh("cmd");
        self.push(
            "command/run",
            obj! { "commandId": t(&id), "name": t("n"), "source": obj! { "kind": t("user") }, "args": t("") },
        );
        let mut data = obj! { "commandId": t(&id), "kind": t("success"), "text": t("") };
        let plain: Vec<u64> = self
            .citable
            .iter()
            .copied()
            .filter(|seq| {
                let row = self.rows.iter().find(|row| row.get("seq").and_then(Json::number) == Some(*seq));
                let kind = row.and_then(|row| row.get("type"));
                !matches!(kind, Some(Json::Text(kind)) if kind.starts_with("command/"))
            })
            .collect();
        if !plain.is_empty() && self.chance(2) {
            data.set("sourceEventSeq", n(*self.rng.pick(&plain)));
        }
        self.push("command/done", data);
    }

    fn delivery(&mut self) {
        if self.seq == 0 {
            return;
        }
        let mut data = obj! { "sessionId": t(&self.id), "throughSeq": n(self.seq - 1) };
        if self.version == 1 {
            match self.rng.below(3) {
                0 => data.set("sessionFormatVersion", n(1)),
                1 => {
                    data.set("sessionFormatVersion", n(5));
                    data.set("sessionId", raw("7"));
                }
                _ => {}
            }
        }
        self.push("session-log-deepseek/delivery-accepted", data);
    }
}

/// Whether an old goal message stands where an attempt may be open.
fn has_goal_inside_attempt(rows: &[Json]) -> bool {
    let mut is_open = false;
    rows.iter().any(|row| {
        let kind = match row.get("type") {
            Some(Json::Text(kind)) => kind.as_str(),
            _ => "",
        };
        is_open = match kind {
            "assistant/chunk" | "text-chunks" | "reasoning-chunks" | "tool-call-chunks" => true,
            "assistant/message" | "turn/end" | "step/end" | "llm/retry" | "llm/retry-started" => false,
            _ => is_open,
        };
        let source = row.get("data").and_then(|data| data.get("source"));
        is_open && source.is_some_and(|source| source.get("change").is_some())
    })
}

fn result_message(id: &str, call: &str, content: Json, is_error: Json) -> Json {
    obj! {
        "id": t(id), "role": t("user"),
        "content": list(vec![obj! { "type": t("tool-result"), "toolCallId": t(call), "content": content, "isError": is_error }]),
        "source": obj! { "kind": t("tool"), "callId": t(call) }
    }
}

fn call_of(block: &Json) -> Option<Call> {
    let text = |name| match block.get(name) {
        Some(Json::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let is_call = text("type").as_deref() == Some("tool-call");
    is_call.then(|| Call {
        id: text("id").expect("an id"),
        name: text("name").expect("a name"),
        arguments: text("arguments").expect("arguments"),
    })
}

/// How many chunks from the first on could share a packed row.
fn run_len(chunks: &[Json]) -> usize {
    let key = |chunk: &Json| {
        (
            chunk.get("type").cloned(),
            chunk.get("index").cloned(),
            chunk.get("id").cloned(),
            chunk.get("name").cloned(),
        )
    };
    let is_delta = matches!(chunks[0].get("type"), Some(Json::Text(kind)) if kind.ends_with("-delta"));
    if is_delta { chunks.iter().take_while(|chunk| key(chunk) == key(&chunks[0])).count() } else { 0 }
}

/// A list of seqs in one of its stored forms.
pub(crate) fn stored_list(seqs: &[u64], rng: &mut Rng) -> Json {
    let ascending = seqs.windows(2).all(|pair| pair[0] < pair[1]);
    if !ascending || rng.one_in(2) {
        return list(seqs.iter().map(|seq| n(*seq)).collect());
    }
    let mut entries = Vec::new();
    let mut at = 0;
    while at < seqs.len() {
        let mut end = at;
        while end + 1 < seqs.len() && seqs[end + 1] == seqs[end] + 1 {
            end += 1;
        }
        let shortest = if rng.one_in(8) { 1 } else { 3 };
        if end - at + 1 >= shortest {
            entries.push(list(vec![n(seqs[at]), n(seqs[end])]));
        } else {
            entries.extend(seqs[at..=end].iter().map(|seq| n(*seq)));
        }
        at = end + 1;
    }
    list(entries)
}
