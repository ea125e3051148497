// The original, driven for one measurement: `node dsh.mjs ORACLE TASK ROOT SET ARG...` prints one line like the Rust
// processes do. ORACLE is the folder where its packages are installed; SET a file of header lines and rows.
//
// Events go in as JavaScript objects and come back as such: that is its interface. Times are from before it is mounted, its
// packages being loaded already.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [oracle, task, root, set, ...args] = process.argv.slice(2)
const { mount } = await import(pathToFileURL(join(oracle, 'lib.mjs')))

// Times are summed as offsets from here, which stays exact.
const BASE = 1_700_000_000_000

/** The sessions of a set: header and rows of text. */
function sessions() {
  const found = []
  for (const line of readFileSync(set, 'utf8').split('\n')) {
    if (line.startsWith('{"type":"session"')) found.push({ header: JSON.parse(line), rows: [] })
    else if (line !== '') found.at(-1).rows.push(line)
  }
  return found
}

/** A header as the published version takes it. */
const headerOf = ({ id, createdAt, cwd, delegationDepth }) => ({ version: 0, id, createdAt, cwd, delegationDepth })

function firstId() {
  const text = readFileSync(set, 'utf8')
  return JSON.parse(text.slice(0, text.indexOf('\n'))).id
}

function digestOf(events, withBytes) {
  let rows = 0, seqs = 0, times = 0, bytes = 0
  // Numbers hold the times of some thousand events; all of a long log are beyond 2^53.
  let whole = 0n
  for (const { type, seq, time, ...rest } of withBytes ? events : []) {
    // As in the text: what follows `"data":`.
    const payload = JSON.stringify(rest)
    bytes += Buffer.byteLength(type) + Buffer.byteLength(payload) - '{"data":'.length - 1
  }
  for (const { seq, time } of events) {
    rows += 1
    seqs += seq
    times += time - BASE
    if ((rows & 1023) === 0) {
      whole += BigInt(times)
      times = 0
    }
  }
  return `${rows}:${seqs}:${whole + BigInt(times) + BigInt(BASE) * BigInt(rows)}:${withBytes ? bytes : '-'}`
}

const now = () => process.hrtime.bigint()
const since = start => Number(now() - start)

function print(ns, digest, more = {}) {
  const numbers = { ...more, rss_kib: process.resourceUsage().maxRSS }
  const rest = Object.entries(numbers).map(([name, value]) => ` ${name}=${Math.round(value)}`).join('')
  console.log(`ns=${Math.round(ns)} digest=${digest}${rest}`)
}

async function started() {
  // Loads the packages, so that no measurement does.
  const { stop } = await mount(join(root, 'unused'), { compression: 'zstd' })
  await stop()
}

async function append(batches, size) {
  const [{ header, rows }] = sessions()
  const events = rows.slice(0, batches * size).map(row => JSON.parse(row))
  const { backend, stop } = await mount(root, { compression: 'zstd' })
  await backend.create(headerOf(header))
  const each = []
  const start = now()
  for (let at = 0; at < events.length; at += size) {
    const start = now()
    await backend.append(header.id, events.slice(at, at + size))
    each.push(since(start))
  }
  const ns = since(start)
  await stop()
  each.sort((a, b) => a - b)
  const bytes = rows.slice(0, batches * size).reduce((sum, row) => sum + Buffer.byteLength(row) + 1, 0)
  const p = q => each[Math.floor(each.length * q)]
  print(ns, digestOf(events, true), { p50_ns: p(0.5), p99_ns: p(0.99), bytes })
}

async function write(size) {
  const { backend, stop } = await mount(root, { compression: 'zstd' })
  for (const { header, rows } of sessions()) {
    await backend.create(headerOf(header))
    for (let at = 0; at < rows.length; at += size) {
      await backend.append(header.id, rows.slice(at, at + size).map(row => JSON.parse(row)))
    }
  }
  await stop()
  print(0, '-:-:-:-')
}

async function list(counts) {
  await started()
  const start = now()
  const { backend, stop } = await mount(root, { compression: 'zstd' })
  const headers = (await backend.listSnapshots()).map(({ header }) => header)
  let events = 0, last = 0
  if (counts) {
    for (const { id } of headers) {
      const found = (await backend.readFrom(id, 0)).events
      events += found.length
      last += found.at(-1).time - BASE
    }
  }
  const ns = since(start)
  await stop()
  const sum = headers.reduce((sum, { id, cwd, createdAt }) => sum + BigInt(createdAt + id.length + cwd.length), 0n)
  const times = BigInt(last) + BigInt(BASE) * BigInt(headers.length)
  print(ns, `${counts ? events : '-'}:${headers.length}:${counts ? times : '-'}:${sum}`)
}

async function read(from, count, withBytes) {
  const id = firstId()
  await started()
  const start = now()
  const { backend, stop } = await mount(root, { compression: 'zstd' })
  const once = async () => {
    let { events } = await backend.readFrom(id, from < 0 ? 0 : from)
    if (from < 0) events = events.slice(from)
    return events.slice(0, count)
  }
  const events = await once()
  const digest = digestOf(events, false)
  const ns = since(start)
  let more = {}
  if (Number.isFinite(count)) {
    const again = now()
    await once()
    more = { again_ns: since(again) }
  }
  await stop()
  print(ns, withBytes ? digestOf(events, true) : digest, more)
}

/** Rows compared as text: of many sessions some, as the Rust processes do. */
async function check() {
  const { backend, stop } = await mount(root, { compression: 'zstd' })
  const all = []
  const stored = sessions()
  const step = Math.ceil(stored.length / 100)
  for (const { header, rows } of stored.filter((_, at) => at % step === 0)) {
    const { events } = await backend.readFrom(header.id, 0)
    rows.forEach((row, at) => {
      const found = JSON.stringify(events[at])
      if (found !== row) throw new Error(`${header.id}: another row ${at}: ${String(found).slice(0, 200)}`)
    })
    for (const event of events) all.push(event)
  }
  await stop()
  print(0, digestOf(all, true))
}

const number = index => Number(args[index])
switch (task) {
  case 'append': await append(number(0), number(1)); break
  case 'write': await write(number(0)); break
  case 'list': await list(false); break
  case 'list-counts': await list(true); break
  case 'load': await read(0, Infinity, false); break
  case 'last': await read(-50, 50, false); break
  case 'middle': await read(number(0), 50, false); break
  case 'check': await check(); break
  default: throw new Error(`no task ${task}`)
}
