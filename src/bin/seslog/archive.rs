//! `archive`: the stored files of sessions in one file that was read back, and the sessions gone if asked.
//!
//! Spec: `format-spec/08-exports.md`, "Archive".

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use seslog::container::Encoding;
use seslog::container::disk::{Access, Stamp};
use seslog::export::{LogZip, descendants};
use seslog::store::layout::{Beside, parse_log_name, printable};
use seslog::store::{Folder, Snapshot, State, remove_unchanged};

use crate::export::{Destination, home_of, refused};
use crate::failure::{Done, Failure, Outcome, tell};
use crate::json::Object;
use crate::out::{Out, clean_path, counted, human_bytes, talk};
use crate::root::{LIMITS, Root};
use crate::target::Target;

/// Name of the entry that says what the others are.
const MANIFEST: &str = "manifest.json";
/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// Puts the stored files of sessions into one ZIP, byte for byte, reads it back, and deletes the sessions if asked.
///
/// Sub-sessions go along. An entry is PROJECT/SESSION/FILE, so that unpacking into a root puts the sessions back; manifest.json
/// lists sizes and CRCs. All generations are in it, torn ends that were set aside, and damaged logs as they are. FILE appears
/// when every entry was read back from the disk and is what the manifest says. With --remove a session is deleted only then, and only
/// if none of its files has changed meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: seslog archive 4f1c -o 4f1c.zip --remove")]
pub(crate) struct Args {
    /// Session folders, session ids or their beginnings
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<OsString>,
    /// The new file
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Delete the sessions once the archive was verified
    #[arg(long)]
    remove: bool,
    /// Leave out the sub-sessions
    #[arg(long)]
    alone: bool,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    /// One JSON object a session
    #[arg(long)]
    json: bool,
}

/// Archives what `args` name.
pub(crate) fn run(root: &Root, args: &Args) -> Done {
    if args.output.as_os_str() == "-" {
        return Err(Failure::Usage("an archive is read back, which stdout is not: name a file".to_owned()));
    }
    let sessions = sessions_of(root, args)?;
    let mut destination = Destination::create(Some(&args.output), args.force)?;
    let mut zip = LogZip::new(&mut destination);
    let mut archived = Vec::new();
    for (folder, snapshot) in &sessions {
        archived.push(Archived::copy(root, folder, snapshot, &mut zip)?);
    }
    let manifest = manifest(&archived);
    zip.begin(MANIFEST, true).and_then(|()| zip.bytes(&manifest)).map_err(unwritten)?;
    zip.finish().map_err(unwritten)?;
    destination.settle()?;
    verify(destination.temporary().unwrap_or(&args.output), &archived, &manifest)?;
    let published = destination.publish()?;

    let mut failed = 0_u64;
    let mut gone = Vec::new();
    let mut out = Out::new();
    for one in &archived {
        let removed = args.remove.then(|| remove_unchanged(&**root.disk(), &one.folder, &one.seen));
        let is_removed = matches!(removed, Some(Ok(_)));
        gone.extend(is_removed.then(|| one.folder.clone()));
        if let Some(Err(error)) = removed {
            failed = failed.saturating_add(1);
            tell(&error.into());
        }
        one.print(args, is_removed, &mut out)?;
    }
    root.forget(&gone);
    out.flush()?;
    if let Some((path, bytes)) = published {
        let sessions = counted(archived.len() as u64, "session", "sessions");
        talk::note(&format!("{}: {sessions}, {}, verified", clean_path(&path), human_bytes(bytes)));
    }
    if failed > 0 {
        let sessions = counted(failed, "session was", "sessions were");
        return Err(Failure::new(
            format!("{sessions} archived and not deleted, for the reasons above"),
            "archive them again when nobody writes them, or delete them with `seslog rm`",
        ));
    }
    let mut marred = false;
    for one in &archived {
        if !matches!(one.state, State::Ok | State::Empty) {
            talk::warning(&format!("{}: {}; archived as it is", clean_path(&one.folder), one.state));
            marred = true;
        }
        if !one.strays.is_empty() {
            let files = counted(one.strays.len() as u64, "file is", "files are");
            talk::warning(&format!(
                "{}: {files} none of seslog's, and not archived",
                clean_path(&one.folder)
            ));
            marred = true;
        }
    }
    Ok(Outcome::marred_if(marred))
}

/// The sessions that are archived, each once.
fn sessions_of(root: &Root, args: &Args) -> Result<Vec<(Folder, Snapshot)>, Failure> {
    let mut found: Vec<(Folder, Snapshot)> = Vec::new();
    let mut seen = HashSet::new();
    let mut add = |target: &Target, root: &Root| -> Result<Option<(Folder, Snapshot)>, Failure> {
        let Some(folder) = target.session_folder().cloned() else {
            return Err(Failure::Usage(format!(
                "{}: a session is archived as a whole; name its folder or its id",
                target.log_path()?.display()
            )));
        };
        let snapshot = Snapshot::of_folder(root.disk(), &folder, LIMITS)?;
        Ok(seen.insert(folder.path.clone()).then_some((folder, snapshot)))
    };
    for target in &args.targets {
        let target = Target::resolve(root, target)?;
        let Some((folder, snapshot)) = add(&target, root)? else { continue };
        let header = snapshot.header.clone().filter(|_| !args.alone);
        let home = home_of(root, &folder);
        found.push((folder, snapshot));
        let Some(header) = header else { continue };
        let home = home.as_ref().unwrap_or(root);
        let listed = home.store().list()?;
        for below in descendants(&listed, header.id()) {
            found.extend(add(&Target::of_snapshot(home, below)?, home)?);
        }
    }
    Ok(found)
}

/// A session in an archive.
#[derive(Debug)]
struct Archived {
    id: Option<String>,
    folder: PathBuf,
    state: State,
    files: Vec<Entry>,
    seen: Vec<(OsString, Stamp)>,
    strays: Vec<OsString>,
}

/// A file in an archive.
#[derive(Debug)]
struct Entry {
    name: String,
    size: u64,
    crc: u32,
}

impl Archived {
    /// Copies the files of a session into the archive.
    fn copy(
        root: &Root,
        folder: &Folder,
        snapshot: &Snapshot,
        zip: &mut LogZip<&mut Destination>,
    ) -> Result<Self, Failure> {
        let named = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut prefix = named(&folder.path);
        if let Some(project) = folder.path.parent().filter(|_| folder.is_in_a_project()) {
            prefix = format!("{}/{prefix}", named(project));
        }
        let mut one = Self {
            id: snapshot.header.as_ref().map(|header| printable(header.id())),
            folder: folder.path.clone(),
            state: snapshot.state,
            files: Vec::new(),
            seen: Vec::new(),
            strays: Vec::new(),
        };
        let aside = folder.beside.iter().filter(|(_, kind)| *kind == Beside::SetAside);
        for name in folder.logs.iter().map(|log| &log.name).chain(aside.map(|(name, _)| name)) {
            let path = folder.path.join(name);
            let entry = format!("{prefix}/{}", name.to_string_lossy());
            // What is compressed does not shrink again.
            let deflate = parse_log_name(name).is_some_and(|(_, encoding)| encoding == Encoding::Plain);
            zip.begin(&entry, deflate).map_err(unwritten)?;
            let (size, crc, stamp) = copy_file(root, &path, zip)?;
            one.files.push(Entry { name: entry, size, crc });
            one.seen.push((name.clone(), stamp));
        }
        let strays = folder.beside.iter().filter(|(_, kind)| *kind == Beside::Stray);
        one.strays = strays.map(|(name, _)| name.clone()).collect();
        Ok(one)
    }

    fn bytes(&self) -> u64 {
        self.files.iter().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    fn json(&self) -> Object {
        let mut object = Object::new();
        if let Some(id) = &self.id {
            object.string("id", id);
        }
        object.string("state", &self.state.to_string());
        object.objects(
            "files",
            self.files.iter().map(|file| {
                let mut object = Object::new();
                object.string("path", &file.name).number("sizeBytes", file.size);
                object.string("crc32", &format!("{:08x}", file.crc));
                object
            }),
        );
        object
    }

    fn print(&self, args: &Args, is_removed: bool, out: &mut Out) -> Result<(), Failure> {
        if args.json {
            let mut object = self.json();
            object.path("folder", &self.folder).number("sizeBytes", self.bytes());
            object.flag("removed", is_removed);
            return out.bytes(&object.into_line());
        }
        let name = self.id.clone().unwrap_or_else(|| clean_path(&self.folder));
        let files = counted(self.files.len() as u64, "file", "files");
        let verb = if is_removed { "archived and deleted" } else { "archived" };
        out.line(&format!("{verb} {name}: {files}, {}", human_bytes(self.bytes())))
    }
}

/// Copies a file; it must not change meanwhile. Returns its length, its CRC-32 and what it was.
fn copy_file(
    root: &Root,
    path: &Path,
    zip: &mut LogZip<&mut Destination>,
) -> Result<(u64, u32, Stamp), Failure> {
    let unread = |error| {
        Failure::io(
            format!("{}: reading failed", path.display()),
            error,
            "check the disk, and who owns the file",
        )
    };
    let (file, stamp) = root.disk().open_stamped(path, Access::Read).map_err(unread)?;
    let mut crc = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE];
    let mut at = 0_u64;
    loop {
        let len = file.read_at(at, &mut piece).map_err(unread)?;
        let Some(read) = piece.get(..len).filter(|read| !read.is_empty()) else { break };
        crc.update(read);
        zip.bytes(read).map_err(unwritten)?;
        at = at.saturating_add(len as u64);
    }
    let now = root.disk().stamp(path).map_err(unread)?;
    if now != Some(stamp) || at != stamp.size {
        return Err(Failure::new(
            format!("{}: somebody wrote it while it was archived", path.display()),
            "archive the session when nobody writes it; `seslog stat` tells who does",
        ));
    }
    Ok((at, crc.finalize(), stamp))
}

fn manifest(sessions: &[Archived]) -> Vec<u8> {
    let mut object = Object::new();
    object.string("type", "seslog-archive").number("version", 1);
    object.objects("sessions", sessions.iter().map(Archived::json));
    object.into_line()
}

/// Reads the archive at `path` back, and compares every entry with what was archived.
fn verify(path: &Path, sessions: &[Archived], manifest: &[u8]) -> Result<(), Failure> {
    let wrong = |what: String| {
        let what = format!("{}: the archive was read back, and {what}", path.display());
        Failure::new(what, "nothing was deleted; check the disk, then try again")
    };
    let unread = |error: zip::result::ZipError| wrong(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(|error| wrong(format!("cannot be opened: {error}")))?;
    let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).map_err(unread)?;
    let entries: Vec<&Entry> = sessions.iter().flat_map(|one| &one.files).collect();
    if archive.len() != entries.len().saturating_add(1) {
        return Err(wrong(format!("holds {} entries", archive.len())));
    }
    let mut piece = vec![0; PIECE];
    for entry in entries {
        let mut stored = archive.by_name(&entry.name).map_err(unread)?;
        let (mut crc, mut size) = (crc32fast::Hasher::new(), 0_u64);
        loop {
            let len = stored.read(&mut piece).map_err(|error| wrong(format!("{}: {error}", entry.name)))?;
            let Some(read) = piece.get(..len).filter(|read| !read.is_empty()) else { break };
            crc.update(read);
            size = size.saturating_add(len as u64);
        }
        if (size, crc.finalize()) != (entry.size, entry.crc) {
            return Err(wrong(format!("{} is not what was archived", entry.name)));
        }
    }
    let mut stored = Vec::new();
    let mut entry = archive.by_name(MANIFEST).map_err(unread)?;
    entry.read_to_end(&mut stored).map_err(|error| wrong(format!("{MANIFEST}: {error}")))?;
    if stored == manifest { Ok(()) } else { Err(wrong(format!("{MANIFEST} is not what was archived"))) }
}

fn unwritten(error: seslog::export::ExportError) -> Failure {
    refused(error, false)
}
