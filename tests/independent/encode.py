#!/usr/bin/env python3
"""Writes an indexed session log by `format-spec/` alone: a writer that shares no code with the crate.

    encode.py LOG [--segment BYTES] [--weak] [--log-id HEX] < lines

Standard input is the text of a log, and between its lines what a writer does:

    {...}        the header line first, then rows
    # append     ends an append: the rows since the last one, as segments of at most BYTES bytes of rows
    # leave      the same, but the end of the append is missing, as a crash would leave it
    # marker     commits what was left

`--weak` syncs no append, and says so in the trailers. LOG must not exist; it appears whole or not at all. Blocks are
stored, which is all that a writer needs. Standard library only.
"""

import argparse
import json
import os
import secrets
import sys
import zlib

sys.dont_write_bytecode = True

from decode import xxh64  # noqa: E402

SEQ_MAX = 2**53 - 1
BODY_LEN_MAX = 256 << 20
UNSYNCED_MAX = 1 << 30
BLOCK_MAX = 128 << 10
TRAILER_HEADER = bytes.fromhex("502a4d1838000000")


def u(value, size):
    return value.to_bytes(size, "little")


def frame(content):
    """02, "What a writer writes": single segment, content size, checksum; stored blocks."""
    size = len(content)
    if size < 256:
        head = b"\x24" + u(size, 1)
    elif size < 256 + 65536:
        head = b"\x64" + u(size - 256, 2)
    else:
        head = b"\xa4" + u(size, 4)
    blocks = []
    for at in range(0, max(size, 1), BLOCK_MAX):
        block = content[at : at + BLOCK_MAX]
        is_last = at + BLOCK_MAX >= size
        blocks += [u(len(block) << 3 | is_last, 3), block]
    return b"\x28\xb5\x2f\xfd" + head + b"".join(blocks) + u(xxh64(content), 8)[:4]


def events_of(row, generation):
    """How many events a row holds, and the time of the last one (04, "Packed rows")."""
    if generation < 2 and row["type"] in ("text-chunks", "reasoning-chunks", "tool-call-chunks"):
        gaps = row["data"]["dt"]
        return len(gaps) + 1, int(row["time0"] + sum(gaps))
    return 1, int(row["time"])


class Log:
    """03: the chain of segments, and the bytes so far."""

    def __init__(self, header, log_id):
        values = json.loads(header)
        self.generation, self.id = values["version"], log_id
        self.bytes = bytearray()
        self.ends, self.number = [], 0
        self.previous_crc, self.next_seq, self.last_time = 0, 0, values["createdAt"]
        self.durable = 0
        self.segment(frame(header), 0, True)

    def segment(self, body, events, commit):
        assert len(body) <= BODY_LEN_MAX, "the body is too long"
        start = len(self.bytes)
        end = start + len(body) + 64
        unsynced = start - self.durable
        assert unsynced < UNSYNCED_MAX, "sync before that"
        self.next_seq += events
        assert self.next_seq <= SEQ_MAX + 1, "no seqs are left"
        payload = b"SL" + u(1, 1) + u(commit, 1)
        payload += u(self.number, 4) + u(events, 4) + u(self.previous_crc if self.number > 1 else 0, 4)
        payload += u(self.next_seq, 8) + self.last_time.to_bytes(8, "little", signed=True)
        payload += u(len(body), 4) + u(unsynced, 4)
        payload += u(self.id if self.number == 0 else end - self.ends[self.skip()], 8) + u(zlib.crc32(body), 4)
        self.previous_crc = zlib.crc32(payload, self.id & 0xFFFFFFFF)
        self.bytes += body + TRAILER_HEADER + payload + u(self.previous_crc, 4)
        self.ends.append(end)
        self.number += 1

    def skip(self):
        """J(n): n without the last term of its greedy split into terms 2^k - 1."""
        terms, rest = [0], self.number
        for k in range(32, 0, -1):
            while rest >= (1 << k) - 1:
                terms.append((1 << k) - 1)
                rest -= terms[-1]
        return self.number - terms[-1]

    def append(self, lines, limit, commit):
        pieces = []
        for line in lines:
            if not pieces or sum(map(len, pieces[-1])) + len(line) > limit:
                pieces.append([])
            pieces[-1].append(line)
        for at, piece in enumerate(pieces):
            events = 0
            for line in piece:
                count, self.last_time = events_of(json.loads(line), self.generation)
                events += count
            self.segment(frame(b"".join(piece)), events, commit and at + 1 == len(pieces))

    def synced(self):
        self.durable = len(self.bytes)


def publish(path, data):
    """05, "First publication", without the folders above."""
    folder = os.path.dirname(path) or "."
    draft = f"{path}.{secrets.token_hex(6)}.tmp"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
    try:
        os.link(draft, path)
        folder = os.open(folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    finally:
        os.remove(draft)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("log")
    arguments.add_argument("--segment", type=int, default=256 << 10)
    arguments.add_argument("--weak", action="store_true")
    arguments.add_argument("--log-id", type=lambda text: int(text, 16))
    given = arguments.parse_args()
    # Lines end at 0A and nowhere else.
    lines = [line + b"\n" for line in sys.stdin.buffer.read().split(b"\n")[:-1]]
    log = Log(lines[0], given.log_id or secrets.randbelow(2**64 - 1) + 1)
    rows = []
    for line in lines[1:]:
        if not line.startswith(b"#"):
            rows.append(line)
            continue
        what = line.split()[1]
        if what == b"marker":
            log.segment(b"", 0, True)
        else:
            log.append(rows, given.segment, what == b"append")
            rows = []
        if not given.weak:
            log.synced()
    assert not rows, "the last append has no end"
    publish(given.log, log.bytes)


if __name__ == "__main__":
    main()
