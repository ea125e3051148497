//! Links in Markdown that lead inside the checkout.

/// Links of a Markdown file to files that are not in the tree, or to headings that their file does not have.
///
/// `paths` are the files of the tree, `text_of` gives a file's text by path.
pub(crate) fn broken<'t>(
    path: &str,
    text: &str,
    paths: &[&str],
    text_of: &dyn Fn(&str) -> Option<&'t str>,
) -> Vec<String> {
    if !path.ends_with(".md") || path.starts_with("tests/data/") {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (line, target) in links(text) {
        let (file, heading) =
            target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
        let Some(file) = (if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) }) else {
            found.push(format!("{path}:{line}: `{target}` leaves the checkout"));
            continue;
        };
        let folder = format!("{}/", file.trim_end_matches('/'));
        if !paths.iter().any(|known| *known == file || known.starts_with(&folder) || folder == "/") {
            found.push(format!("{path}:{line}: `{target}` does not exist"));
            continue;
        }
        if let (Some(heading), Some(text)) = (heading, if file == path { Some(text) } else { text_of(&file) })
        {
            // In sources a `#L10` counts lines; there are no headings to check.
            if file.ends_with(".md") && !anchors(text).iter().any(|anchor| anchor == heading) {
                found.push(format!("{path}:{line}: `{target}` names no heading"));
            }
        }
    }
    found
}

/// Line numbers and targets of relative links, outside code.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (line, prose) in prose(text) {
        // `](target)`, `](target "title")`, and `[name]: target` at the start of a line. The code spans are odd pieces.
        for span in prose.split('`').step_by(2) {
            found.extend(
                span.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).map(|t| (line, t)),
            );
        }
        // A link's text may be a code span, which cuts the link in two: look at the whole line for those.
        found.extend(
            prose.split("`](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()).map(|t| (line, t)),
        );
        if let Some((_, target)) = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
            found.push((line, target.split(' ').next().unwrap_or(target)));
        }
    }
    found.retain(|(_, target)| {
        !target.contains("://") && !target.starts_with("mailto:") && !target.is_empty()
    });
    found.sort_unstable();
    found.dedup();
    found
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        (!fenced && !fence).then_some((at + 1, line))
    })
}

/// `target` as seen from the folder of `path`, or None when it climbs out of the checkout.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors that a renderer makes of a file's headings.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let Some(title) = line.strip_prefix('#').map(|rest| rest.trim_start_matches('#')) else { continue };
        let kept = title.trim().to_lowercase();
        let kept: String =
            kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect();
        let anchor = kept.replace(' ', "-");
        let doubles = anchors.iter().filter(|known| **known == anchor).count();
        anchors.push(if doubles == 0 { anchor } else { format!("{anchor}-{doubles}") });
    }
    anchors
}
