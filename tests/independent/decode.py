#!/usr/bin/env python3
"""Reads session logs by `format-spec/` alone: a second reader that shares no code with the crate.

    decode.py FILE...
    decode.py -            the files' names come from standard input, one a line

Prints one JSON object a file, with the keys of `format-spec/vectors/README.md`. The file's name says its encoding.

Standard library only. Compressed blocks need a decompressor: the module `compression.zstd` or `zstandard`, or the
program `zstd`. Without any, a file that holds such blocks gives {"skipped": "..."}; stored blocks need nothing.
"""

import json
import os
import subprocess
import sys
import zlib

SEQ_MAX = 2**53 - 1
SECTOR = 512
BODY_LEN_MAX = 256 << 20
HEADER_BYTES_MAX = 1 << 20
ROW_BYTES_MAX = 256 << 20
CONTENT_MAX = 4 << 30
WINDOW_MAX = 128 << 20
CURRENT = 2

FRAME_MAGIC = bytes.fromhex("28b52ffd")
TRAILER_HEADER = bytes.fromhex("502a4d1838000000")
# Of class unsupported or limit: not understood, or beyond a limit of this reader.
UNSUPPORTED = {"Dictionary", "TrailerVersion", "TrailerFlags", "Extension"}
UNSUPPORTED |= {"WindowLimit", "ContentLimit", "LineLimit", "BodyLimit"}


class Fault(Exception):
    """What stands at a place instead of a good record."""

    def __init__(self, name, member=None, inside=None, end=None):
        super().__init__(name)
        self.name, self.member, self.inside = name, member, inside
        # 05, "Intact frames": where the damaged frame ends, if known.
        self.end = end


class NeedsDecompressor(Exception):
    pass


# 02 Frames


def skippable_len(data, at):
    """Stored length of the skippable frame at `at`, or None."""
    head = data[at : at + 8]
    if len(head) == 8 and head[0] & 0xF0 == 0x50 and head[1:4] == b"\x2a\x4d\x18":
        return 8 + int.from_bytes(head[4:8], "little")
    return None


class Frame:
    def __init__(self, start):
        self.start = start
        self.end = None
        self.size = None
        self.window = None
        self.dictionary = 0
        self.has_checksum = False
        self.blocks = []  # (type, size, offset of the body, stored length)


def walk_frame(data, start):
    """The structural walk."""
    frame = Frame(start)
    at = start

    def take(count):
        nonlocal at
        if at + count > len(data):
            raise Fault("Truncated")
        piece = data[at : at + count]
        at += count
        return piece

    magic = take(4)
    if magic != FRAME_MAGIC:
        length = skippable_len(data, start)
        if length is not None:
            raise Fault("SkippableFrame", end=start + length)
        raise Fault("FrameMagic")
    descriptor = take(1)[0]
    if descriptor & 0b11000:
        raise Fault("FrameReserved")
    single = bool(descriptor & 0x20)
    frame.has_checksum = bool(descriptor & 0x04)
    w = 0 if single else 1
    d = (0, 1, 2, 4)[descriptor & 3]
    c = ((1 if single else 0), 2, 4, 8)[descriptor >> 6]
    tail = take(w + d + c)
    frame.dictionary = int.from_bytes(tail[w : w + d], "little")
    if c:
        frame.size = int.from_bytes(tail[w + d :], "little") + (256 if c == 2 else 0)
    if single:
        frame.window = frame.size
    else:
        exponent, mantissa = tail[0] >> 3, tail[0] & 7
        base = 1 << (10 + exponent)
        frame.window = base + base // 8 * mantissa
    while True:
        header = int.from_bytes(take(3), "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == 3:
            raise Fault("BlockType")
        stored = 1 if kind == 1 else size
        frame.blocks.append((kind, size, at, stored))
        take(stored)
        if header & 1:
            break
    if frame.has_checksum:
        take(4)
    frame.end = at
    return frame


def xxh64(data):
    mask = 2**64 - 1
    p1, p2, p3, p4, p5 = (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )

    def rotate(value, bits):
        return (value << bits | value >> (64 - bits)) & mask

    def mix(lane, word):
        return rotate((lane + word * p2) & mask, 31) * p1 & mask

    at = 0
    if len(data) >= 32:
        lanes = [(p1 + p2) & mask, p2, 0, -p1 & mask]
        while at + 32 <= len(data):
            for lane in range(4):
                lanes[lane] = mix(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        digest = sum(rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & mask
        for lane in lanes:
            digest = ((digest ^ mix(0, lane)) * p1 + p4) & mask
    else:
        digest = p5
    digest = (digest + len(data)) & mask
    while at + 8 <= len(data):
        digest = (rotate(digest ^ mix(0, int.from_bytes(data[at : at + 8], "little")), 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        digest = (rotate(digest ^ int.from_bytes(data[at : at + 4], "little") * p1 & mask, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        digest = rotate(digest ^ byte * p5 & mask, 11) * p1 & mask
    for shift, factor in ((33, p2), (29, p3)):
        digest = (digest ^ digest >> shift) * factor & mask
    return digest ^ digest >> 32


def decompressor():
    """A function from a frame to its content, or None; the checksum is ours to compare."""
    try:
        from compression import zstd

        return zstd.decompress
    except ImportError:
        pass
    try:
        import zstandard

        return lambda frame: zstandard.ZstdDecompressor().decompressobj().decompress(frame)
    except ImportError:
        pass

    def program(frame):
        command = ["zstd", "-d", "-c", "-q", "--no-check"]
        return subprocess.run(command, input=frame, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True).stdout

    try:
        subprocess.run(["zstd", "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        return program
    except (OSError, subprocess.CalledProcessError):
        return None


DECOMPRESS = decompressor()
KNOWN = {}


def decompressed(frame):
    """Content of a frame, or None if it cannot be decompressed; starting a program for the same frame twice is slow."""
    if frame not in KNOWN:
        try:
            KNOWN[frame] = DECOMPRESS(frame)
        except Exception:
            KNOWN[frame] = None
    return KNOWN[frame]


def content(data, frame, is_header):
    """Content of one whole frame, checked in the order of 02, "Content"."""
    limit = HEADER_BYTES_MAX if is_header else CONTENT_MAX
    if frame.window > WINDOW_MAX and (frame.size is None or frame.size > limit):
        raise Fault("WindowLimit", end=frame.end)
    if frame.dictionary:
        raise Fault("Dictionary", end=frame.end)
    if frame.size is not None and frame.size > limit:
        raise Fault("ContentLimit", end=frame.end)
    # RFC 8878, 3.1.1.2.4: no block is longer than the window or 128 KiB, stored or regenerated.
    if any(size > min(frame.window, 128 << 10) for _, size, _, _ in frame.blocks):
        raise Fault("FrameData", end=frame.end)
    if all(kind != 2 for kind, _, _, _ in frame.blocks):
        if sum(size for _, size, _, _ in frame.blocks) > limit:
            raise Fault("ContentLimit", end=frame.end)
        pieces = []
        for kind, size, at, stored in frame.blocks:
            pieces.append(data[at : at + stored] if kind == 0 else data[at : at + 1] * size)
        text = b"".join(pieces)
    elif DECOMPRESS is None:
        raise NeedsDecompressor()
    else:
        text = decompressed(data[frame.start : frame.end])
        if text is None:
            raise Fault("FrameData", end=frame.end)
    if len(text) > limit:
        raise Fault("ContentLimit", end=frame.end)
    if frame.has_checksum and data[frame.end - 4 : frame.end] != xxh64(text).to_bytes(8, "little")[:4]:
        raise Fault("FrameChecksum", end=frame.end)
    if frame.size is not None and frame.size != len(text):
        raise Fault("ContentSize", end=frame.end)
    if is_header:
        if text.count(b"\n") != 1 or not text.endswith(b"\n"):
            raise Fault("HeaderLine", end=frame.end)
    elif text and not text.endswith(b"\n"):
        raise Fault("LineEnd", end=frame.end)
    return text


# 01 Container, "Detection"


def detect(data):
    if not data or data[0] in (0x00, 0x09, 0x0A, 0x0D, 0x20):
        return "nothing"
    if data[0] == 0x7B or data[:3] == b"\xef\xbb\xbf":
        return "plain"
    if FRAME_MAGIC.startswith(data[:4]):
        try:
            frame = walk_frame(data, 0)
        except Fault:
            return "compressed"
        after = data[frame.end : frame.end + 8]
        if not after:
            return "compressed"
        return "indexed" if TRAILER_HEADER.startswith(after) else "zstd"
    return "unknown"


# 03 Trailer


def u(data, at, size):
    return int.from_bytes(data[at : at + size], "little")


class Trailer:
    """The 64 bytes at `at`; nothing is checked."""

    def __init__(self, data, at):
        payload = data[at + 8 : at + 64]
        self.header, self.magic, self.covered = data[at : at + 8], payload[:2], payload[:52]
        self.end = at + 64
        self.version, self.flags = payload[2], payload[3]
        self.segment, self.events, self.prev_crc = u(payload, 4, 4), u(payload, 8, 4), u(payload, 12, 4)
        self.next_seq = u(payload, 16, 8)
        self.last_time = int.from_bytes(payload[24:32], "little", signed=True)
        self.body_len, self.unsynced = u(payload, 32, 4), u(payload, 36, 4)
        self.skip = u(payload, 40, 8)
        self.body_crc, self.trailer_crc = u(payload, 48, 4), u(payload, 52, 4)

    @property
    def commit(self):
        return bool(self.flags & 1)

    def check_magic(self):
        if self.header != TRAILER_HEADER or self.magic != b"SL":
            raise Fault("TrailerMagic")

    def check_seal(self, log_id):
        """Checks 3 to 5 of "Order of checks"."""
        if zlib.crc32(self.covered, log_id & 0xFFFFFFFF) != self.trailer_crc:
            raise Fault("TrailerCrc")
        if self.version != 1:
            raise Fault("TrailerVersion")
        if self.flags & 0b1110:
            raise Fault("TrailerFlags")

    def vouches(self):
        return max(0, self.end - 64 - self.body_len - self.unsynced)


def jump(n):
    """J(n)."""
    rest, last = n, 0
    while rest:
        last = (1 << ((rest + 1).bit_length() - 1)) - 1
        rest -= last
    return n - last


def expect(rules):
    for member, wanted, got in rules:
        if wanted != got:
            raise Fault("Chain", member=member)


def read_trailer(data, at):
    stored = data[at : at + 64]
    if len(stored) < 64:
        raise Fault("Truncated" if TRAILER_HEADER.startswith(stored[:8]) else "TrailerMagic")
    return Trailer(data, at)


def find_body(data, start):
    """01, "Finding the end of a body": the data frame, the body's end, and whether extension frames stand before it."""
    at, extension = start, False
    while True:
        head = data[at : at + 8]
        if len(head) < 8:
            begins = TRAILER_HEADER.startswith(head) or FRAME_MAGIC.startswith(head[:4])
            raise Fault("Truncated" if begins else "FrameMagic")
        if head == TRAILER_HEADER:
            return None, at, extension
        length = skippable_len(data, at)
        if length is None:
            frame = walk_frame(data, at)
            return frame, frame.end, extension
        if at + length > len(data):
            raise Fault("Truncated")
        at += length
        extension = True


# 05, "Judging the end"


def has_zero_sector(data, p):
    first = -(-p // SECTOR) * SECTOR
    for at in range(first, len(data) - SECTOR + 1, SECTOR):
        if not any(data[at : at + SECTOR]):
            return True
    border = min((p // SECTOR + 1) * SECTOR, len(data))
    if p < border and not any(data[p:border]):
        return True
    last = len(data) // SECTOR * SECTOR
    return last > p and len(data) - last >= 8 and not any(data[last:])


def zeros_reach_the_end(data, p):
    return not data[p:].lstrip(bytes(range(1, 256))).strip(b"\0")


def intact(data, at):
    try:
        frame = walk_frame(data, at)
    except Fault:
        return False
    try:
        return frame.has_checksum and content(data, frame, False) != b""
    except Fault as fault:
        # What it holds is not known.
        return fault.name in UNSUPPORTED


def first_intact(data, p, end):
    """05, "Intact frames"."""
    at = end
    while at is not None and at < len(data):
        if intact(data, at):
            return at
        try:
            at = walk_frame(data, at).end
        except Fault:
            break
    at = data.find(FRAME_MAGIC, end if end is not None else p + 1)
    while at >= 0:
        if intact(data, at):
            return at
        at = data.find(FRAME_MAGIC, at + 1)
    return None


def judge(encoding, data, p, fault, committed, later, durable):
    """The verdict and D."""
    vouched = max(later, default=0)
    if vouched > p:
        durable = vouched
    if fault is None:
        return ("complete" if committed else "unfinished"), durable
    if fault.name in UNSUPPORTED:
        return "unsupported", durable
    if encoding != "plain":
        if vouched > p:
            return "corrupt", durable
        if fault.name == "Truncated" and not later:
            return "torn", durable
        if has_zero_sector(data, p):
            return "torn", durable
    elif fault.name == "Truncated" and zeros_reach_the_end(data, p):
        return "torn", durable
    return "damaged", durable


# Reading forward


class Result:
    def __init__(self, detected):
        self.values = {"detected": detected}
        self.text = b""

    def refuse(self, fault, at):
        self.values["fault"], self.values["at"] = fault.name, at
        for key in ("member", "inside"):
            if getattr(fault, key) is not None:
                self.values[key] = getattr(fault, key)


def read_indexed(data, result):
    try:
        frame = walk_frame(data, 0)
    except Fault as fault:
        return result.refuse(fault, 0)
    try:
        first = read_trailer(data, frame.end)
        first.check_magic()
        if first.skip == 0:
            raise Fault("LogId")
        log_id = first.skip
        first.check_seal(log_id)
        expect(
            [
                ("segment", 0, first.segment),
                ("events", 0, first.events),
                ("prev_crc", 0, first.prev_crc),
                ("next_seq", 0, first.next_seq),
                ("unsynced", 0, first.unsynced),
                ("flags", True, first.commit),
                ("body_len", frame.end, first.body_len),
            ]
        )
    except Fault as fault:
        return result.refuse(fault, frame.end)
    try:
        if frame.end > BODY_LEN_MAX:
            raise Fault("BodyLimit")
        if zlib.crc32(data[: frame.end]) != first.body_crc:
            raise Fault("BodyCrc")
        result.text = content(data, frame, True)
    except Fault as fault:
        return result.refuse(fault, 0)

    previous, ends, durable = first, [first.end], first.vouches()
    fault = None
    while previous.end < len(data):
        p = previous.end
        try:
            frame, body_end, extension = find_body(data, p)
            trailer = read_trailer(data, body_end)
            trailer.check_magic()
            trailer.check_seal(log_id)
            without_events = trailer.body_len == 0 or trailer.events == 0
            marker = trailer.body_len == 0
            expect(
                [
                    ("segment", previous.segment + 1, trailer.segment),
                    ("prev_crc", previous.trailer_crc if previous.segment else 0, trailer.prev_crc),
                    ("next_seq", previous.next_seq + trailer.events, trailer.next_seq),
                    ("body_len", body_end - p, trailer.body_len),
                    ("last_time", previous.last_time if without_events else trailer.last_time, trailer.last_time),
                    ("events", 0 if marker else trailer.events, trailer.events),
                    ("flags", True if marker else trailer.commit, trailer.commit),
                    ("skip", trailer.end - ends[jump(trailer.segment)], trailer.skip),
                ]
            )
            if trailer.body_len > BODY_LEN_MAX:
                raise Fault("BodyLimit")
            if zlib.crc32(data[p:body_end]) != trailer.body_crc:
                raise Fault("BodyCrc")
            if extension:
                raise Fault("Extension")
        except Fault as found:
            fault = found
            break
        previous = trailer
        ends.append(trailer.end)
        durable = max(durable, trailer.vouches())
        if frame is not None:
            try:
                result.text += content(data, frame, False)
            except Fault as bad:
                # No bad end: an error at the data frame, and a strict reader stops.
                return result.refuse(bad, frame.start)

    p = previous.end
    later = []
    if fault is not None:
        at = data.find(TRAILER_HEADER, p)
        while 0 <= at <= len(data) - 64:
            trailer = Trailer(data, at)
            try:
                trailer.check_magic()
                trailer.check_seal(log_id)
                later.append(trailer.vouches())
            except Fault:
                pass
            at = data.find(TRAILER_HEADER, at + 1)
    state, durable = judge("indexed", data, p, fault, previous.commit, later, durable)
    result.values.update(state=state, good_end=p, durable=durable, committed=previous.commit)
    if fault is not None:
        result.refuse(fault, p)


def read_zstd(data, result):
    p, number, fault = 0, 0, None
    while p < len(data) or number == 0:
        try:
            frame = walk_frame(data, p)
            result.text += content(data, frame, number == 0)
        except Fault as found:
            if number == 0:
                found.name = "HeaderLine" if found.name == "Truncated" else found.name
                return result.refuse(found, 0)
            fault = found
            break
        p, number = frame.end, number + 1
    later = []
    if fault is not None:
        at = first_intact(data, p, fault.end)
        later = [] if at is None else [at]
    state, _ = judge("zstd", data, p, fault, True, later, 0)
    result.values.update(state=state, good_end=p)
    if fault is not None:
        result.refuse(fault, p)


def read_plain(data, result):
    p, fault = 0, None
    while p < len(data) or p == 0:
        limit = ROW_BYTES_MAX if p else HEADER_BYTES_MAX
        end = data.find(b"\n", p, p + limit) + 1
        if end == 0:
            fault = Fault("LineLimit" if len(data) - p > limit else "Truncated")
            break
        p = end
    if p == 0:
        return result.refuse(Fault("HeaderLine") if fault.name == "Truncated" else fault, 0)
    result.text = data[:p]
    state, _ = judge("plain", data, p, fault, True, [], 0)
    result.values.update(state=state, good_end=p)
    if fault is not None:
        result.refuse(fault, p)


# 04 Rows


class Number:
    """A number by its text."""

    def __init__(self, text):
        try:
            self.value = float(text)
        except OverflowError:
            self.value = float("inf")

    def safe_integer(self):
        value = self.value
        if value != value or abs(value) > SEQ_MAX or value != int(value):
            return None
        if value == 0 and str(value).startswith("-"):
            return None
        return int(value)

    def count(self):
        value = self.safe_integer()
        return value if value is not None and value >= 0 else None


def no_constant(word):
    raise ValueError(word)


def parse(line):
    """The value of a line; objects become dicts, whose duplicates have the last value."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        raise Fault("NotUtf8") from None
    try:
        return json.loads(text, parse_int=Number, parse_float=Number, parse_constant=no_constant)
    except (ValueError, RecursionError):
        raise Fault("NotJson") from None


def count_of(value):
    return value.count() if isinstance(value, Number) else None


def integer_of(value):
    return value.safe_integer() if isinstance(value, Number) else None


def member(values, name, rule, missing="MissingMember", wrong="Member"):
    """The value of a member that is required and passes `rule`, which gives None for what does not pass."""
    if name not in values:
        raise Fault(missing, member=name)
    got = rule(values[name])
    if got is None:
        raise Fault(wrong, member=name)
    return got


def string_of(value):
    return value if isinstance(value, str) else None


def boolean_of(value):
    return value if isinstance(value, bool) else None


HEADERS = {
    0: ("type", "id", "createdAt", "cwd", "parentSession", "seedLength", "origin", "delegationDepth", "agentPreset"),
    2: ("type", "id", "createdAt", "cwd", "parentSession", "isSeeded", "origin", "delegationDepth", "agentPreset"),
}
HEADERS[1] = HEADERS[0]
OPTIONAL = {"cwd", "parentSession", "seedLength", "origin", "agentPreset"}
RULES = {
    "type": lambda value: value if value == "session" else None,
    "id": string_of,
    "createdAt": count_of,
    "cwd": lambda value: value if isinstance(value, str) and value.startswith("/") else None,
    "parentSession": string_of,
    "seedLength": count_of,
    "isSeeded": boolean_of,
    "origin": lambda value: value if value == "subagent" else None,
    "delegationDepth": count_of,
    "agentPreset": string_of,
}


def read_header(line):
    if len(line) + 1 > HEADER_BYTES_MAX:
        raise Fault("TooLong")
    values = parse(line)
    if not isinstance(values, dict):
        raise Fault("NotObject")
    version = member(values, "version", count_of, missing="Missing")
    if version > CURRENT:
        raise Fault("Newer")
    names = HEADERS[version]
    if any(name not in names and name != "version" for name in values):
        raise Fault("UnknownMember")
    header = {"version": version}
    for name in names:
        if name in values or name not in OPTIONAL:
            header[name] = member(values, name, RULES[name], missing="Missing")
    return header


def check_sources(value, bound):
    """04, "Seq ranges"."""
    if not isinstance(value, list):
        raise Fault("Provenance", inside="NotArray")
    total, ranged, runs = 0, False, []
    for entry in value:
        if isinstance(entry, list):
            ends = [count_of(end) for end in entry]
            if len(ends) != 2 or None in ends:
                raise Fault("Provenance", inside="Entry")
            first, last, ranged = ends[0], ends[1], True
        else:
            first = last = count_of(entry)
            if first is None:
                raise Fault("Provenance", inside="Entry")
        if last < first:
            raise Fault("Provenance", inside="Backwards")
        if last >= bound:
            raise Fault("Provenance", inside="Later")
        total += last - first + 1
        if total > bound:
            raise Fault("Provenance", inside="TooMany")
        runs.append((first, last))
    ascending = all(left[1] < right[0] for left, right in zip(runs, runs[1:]))
    if ranged and not ascending:
        raise Fault("Provenance", inside="NotAscending")
    if not ranged and len(set(runs)) < len(runs):
        raise Fault("Provenance", inside="Repeated")


ENVELOPE = {"type", "seq", "time", "data", "ignorable", "sourceEventSeqs", "surfaceOp"}
PACKED = {
    "text-chunks": ("turn", "step", "index", "dt", "texts"),
    "reasoning-chunks": ("turn", "step", "index", "dt", "texts"),
    "tool-call-chunks": ("turn", "step", "index", "dt", "id", "name", "args"),
}


def packed(fault, member=None):
    return Fault("Packed", inside=fault, member=member)


def part(values, name, rule):
    try:
        return member(values, name, rule)
    except Fault as fault:
        raise packed(fault.name, fault.member) from None


def array_of(rule, name, value):
    if not isinstance(value, list):
        raise packed("Member", name)
    items = [rule(item) for item in value]
    if None in items:
        raise packed("Member", name)
    return items


def read_packed(values):
    kind = values["type"]
    if any(name not in ("type", "seq0", "time0", "data") for name in values):
        raise packed("UnknownMember")
    seq0 = part(values, "seq0", count_of)
    time0 = part(values, "time0", integer_of)
    data = part(values, "data", lambda value: value if isinstance(value, dict) else None)
    if any(name not in PACKED[kind] for name in data):
        raise packed("UnknownMember")
    for name in ("turn", "step", "index"):
        part(data, name, count_of)
    fragments_name = PACKED[kind][-1]
    for name in ("dt", fragments_name):
        if name not in data:
            raise packed("MissingMember", name)
    if kind == "tool-call-chunks":
        part(data, "id", lambda value: value if isinstance(value, str) and value else None)
        if "name" in data and not isinstance(data["name"], str):
            raise packed("Member", "name")
    fragments = array_of(string_of, fragments_name, data[fragments_name])
    if not fragments:
        raise packed("Empty")
    if not isinstance(data["dt"], list):
        raise packed("Member", "dt")
    times = [time0]
    for gap in data["dt"]:
        gap = integer_of(gap)
        if gap is None:
            raise packed("Member", "dt")
        times.append(times[-1] + gap)
        if abs(times[-1]) > SEQ_MAX:
            raise packed("Time")
    if len(times) != len(fragments):
        raise packed("Lengths")
    if seq0 + len(fragments) - 1 > SEQ_MAX:
        raise packed("SeqOverflow")
    return seq0, [(seq0 + k, time, "assistant/chunk") for k, time in enumerate(times)], None


def read_values(values, generation):
    """First seq, events, and the data of a `session/end-seed`."""
    if not isinstance(values, dict):
        raise Fault("NotObject")
    if generation < 2 and isinstance(values.get("type"), str) and values["type"] in PACKED:
        return read_packed(values)
    if any(name not in ENVELOPE for name in values):
        raise Fault("UnknownMember")
    kind = member(values, "type", string_of)
    seq = member(values, "seq", count_of)
    time = member(values, "time", integer_of)
    if "data" not in values:
        raise Fault("MissingMember", member="data")
    if "ignorable" in values and values["ignorable"] is not True:
        raise Fault("Member", member="ignorable")
    if "sourceEventSeqs" in values:
        check_sources(values["sourceEventSeqs"], seq)
    end_seed = (values["data"],) if kind == "session/end-seed" else None
    return seq, [(seq, time, kind)], end_seed


def opening(line):
    """Where the bracket stands that the last byte of `line` closes, reading backwards; None if there is none."""
    if not line or line[-1:] not in (b"}", b"]"):
        return None
    depth, at = 0, len(line) - 1
    while at >= 0:
        byte = line[at : at + 1]
        if byte in (b"}", b"]"):
            depth += 1
        elif byte in (b"{", b"["):
            depth -= 1
            if depth == 0:
                return at
        elif byte == b'"':
            at -= 1
            while at >= 0:
                if line[at : at + 1] == b'"':
                    before = line[:at]
                    if (len(before) - len(before.rstrip(b"\\"))) % 2 == 0:
                        break
                at -= 1
        at -= 1
    return None


def holds_row_at_end(line, generation):
    at = opening(line)
    if not at:
        return False
    try:
        read_values(parse(line[at:]), generation)
        return True
    except Fault:
        return False


def read_row(line, generation):
    if len(line) + 1 > ROW_BYTES_MAX:
        raise Fault("TooLong")
    try:
        values = parse(line)
    except Fault:
        if holds_row_at_end(line, generation):
            raise Fault("FusedRows") from None
        raise
    return read_values(values, generation)


def read_rows(result, whole):
    lines = result.text.split(b"\n")[:-1]
    if not lines:
        return
    values = result.values

    def refuse(fault, at, line):
        # A fault of the container is named before one of a row.
        if whole:
            result.refuse(fault, at)
            if line is not None:
                values["line"] = line

    try:
        header = read_header(lines[0])
    except Fault as fault:
        return refuse(fault, 0, 1)
    generation, events, marker, offset = header["version"], [], None, len(lines[0]) + 1
    values["events"] = events
    for number, line in enumerate(lines[1:], start=2):
        try:
            seq, found, end_seed = read_row(line, generation)
            if seq != len(events):
                raise Fault("Gap" if seq > len(events) else "Repeat")
            if generation >= 2 and end_seed is not None:
                if not isinstance(end_seed[0], dict):
                    raise Fault("EndSeed")
                if end_seed[0].get("inherited") is True:
                    marker = seq
        except Fault as fault:
            return refuse(fault, offset, number)
        events.extend(found)
        offset += len(line) + 1
    if not whole and values.get("state") not in ("torn", "damaged"):
        return
    if "seedLength" in header:
        if header["seedLength"] > len(events):
            refuse(Fault("BeyondEvents"), None, None)
        else:
            values["cut"] = header["seedLength"]
    elif header.get("isSeeded"):
        if marker is None:
            refuse(Fault("NoMarker"), None, None)
        else:
            values["cut"] = marker
    elif marker is not None:
        refuse(Fault("Unseeded"), None, None)


SUFFIXES = ((".jsonl.zst", "indexed", read_indexed), (".jsonl.zstd", "zstd", read_zstd), (".jsonl", "plain", read_plain))


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    result = Result(detect(data))
    reader = next(reader for suffix, _, reader in SUFFIXES if path.endswith(suffix))
    try:
        reader(data, result)
    except NeedsDecompressor:
        return {"skipped": "no Zstandard decompressor is here"}
    values = result.values
    values["text_len"], values["text_crc"] = len(result.text), zlib.crc32(result.text)
    read_rows(result, "fault" not in values)
    values["events"] = [list(event) for event in values["events"]] if "events" in values else None
    return {key: value for key, value in values.items() if value is not None}


def main():
    sys.setrecursionlimit(20000)
    paths = sys.argv[1:]
    if paths == ["-"]:
        paths = sys.stdin.read().splitlines()
    for path in paths:
        json.dump(read(path), sys.stdout)
        sys.stdout.write(os.linesep)


if __name__ == "__main__":
    main()
