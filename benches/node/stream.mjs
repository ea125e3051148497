// The rival of benches/stream.rs: assistant streams in JavaScript, as plainly as they can be written.
//
// The original's functions are in no published package. This is a stand-in, written from the description of their
// behaviour: the same checks in the same order and the same results, with no attempt to be slow or clever. What is slow
// or quick about the original beyond that is not measured here.
//
//     node benches/node/stream.mjs RECORDS.json RUNS
//
// RECORDS.json is the JSON text of a stream. Prints one line of JSON: nanoseconds a delta of each task, one number a
// run, and a digest of what was computed.

import { readFileSync } from 'node:fs'

const isCount = n => Number.isSafeInteger(n) && n >= 0 && !Object.is(n, -0)
const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value)

/** A deep, frozen copy of a value that JSON can hold without loss. */
function snapshot(value) {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value
  if (typeof value === 'number') {
    if (!Number.isFinite(value) || Object.is(value, -0)) throw new TypeError('not lossless')
    return value
  }
  if (Array.isArray(value)) return Object.freeze(value.map(snapshot))
  if (typeof value !== 'object') throw new TypeError('not lossless')
  const copy = {}
  for (const name of Object.keys(value)) copy[name] = snapshot(value[name])
  return Object.freeze(copy)
}

/** Joins timed chunks to compact records. */
export class Accumulator {
  #records = []

  push({ time, chunk }) {
    if (!Number.isSafeInteger(time)) throw new TypeError('time')
    const copy = snapshot(chunk)
    if (!isObject(copy)) throw new TypeError('chunk')
    switch (copy.type) {
      case 'text-delta':
      case 'reasoning-delta': {
        if (!isCount(copy.index)) throw new TypeError('index')
        if (typeof copy.text !== 'string') throw new TypeError('text')
        const type = copy.type === 'text-delta' ? 'text-chunks' : 'reasoning-chunks'
        const open = this.#records.at(-1)
        if (open?.type === type && open.index === copy.index && Number.isSafeInteger(time - open.last)) {
          open.dt.push(time - open.last)
          open.texts.push(copy.text)
          open.last = time
        } else {
          this.#records.push({ type, time0: time, index: copy.index, dt: [], texts: [copy.text], last: time })
        }
        break
      }
      case 'tool-call-delta': {
        if (!isCount(copy.index)) throw new TypeError('index')
        if (typeof copy.id !== 'string') throw new TypeError('id')
        const named = Object.hasOwn(copy, 'name')
        if (named && typeof copy.name !== 'string') throw new TypeError('name')
        if (typeof copy.argumentsDelta !== 'string') throw new TypeError('argumentsDelta')
        if (copy.id === '' || copy.name === '') {
          this.#records.push({ type: 'chunk', time, chunk: copy })
          break
        }
        const open = this.#records.at(-1)
        if (open?.type === 'tool-call-chunks' && open.index === copy.index && open.id === copy.id
          && open.name === copy.name && Number.isSafeInteger(time - open.last)) {
          open.dt.push(time - open.last)
          open.args.push(copy.argumentsDelta)
          open.last = time
        } else {
          const name = named ? { name: copy.name } : {}
          this.#records.push({
            type: 'tool-call-chunks', time0: time, index: copy.index, dt: [], id: copy.id, ...name,
            args: [copy.argumentsDelta], last: time,
          })
        }
        break
      }
      case 'block-start':
      case 'block-end':
      case 'usage':
      case 'finish':
        this.#records.push({ type: 'chunk', time, chunk: copy })
        break
      default:
        throw new TypeError('type')
    }
    return Object.freeze({ time, chunk: copy })
  }

  snapshot() {
    return this.#records.map(({ last, ...record }) => {
      if (record.dt) record.dt = [...record.dt]
      if (record.texts) record.texts = [...record.texts]
      if (record.args) record.args = [...record.args]
      return record
    })
  }
}

const MEMBERS = {
  'text-chunks': ['type', 'time0', 'index', 'dt', 'texts'],
  'reasoning-chunks': ['type', 'time0', 'index', 'dt', 'texts'],
  'tool-call-chunks': ['type', 'time0', 'index', 'dt', 'id', 'args'],
  chunk: ['type', 'time', 'chunk'],
}

/** Checks records and gives the timed chunks back. */
export function expand(records) {
  const timed = []
  for (const record of records) {
    if (!isObject(record)) throw new TypeError('record')
    if (typeof record.type !== 'string' || !Object.hasOwn(MEMBERS, record.type)) throw new TypeError('type')
    const isCall = record.type === 'tool-call-chunks'
    const named = isCall && Object.hasOwn(record, 'name')
    const members = MEMBERS[record.type]
    if (Object.keys(record).length !== members.length + (named ? 1 : 0)
      || !members.every(name => Object.hasOwn(record, name))) throw new TypeError('members')
    if (record.type === 'chunk') {
      if (!Number.isSafeInteger(record.time)) throw new TypeError('time')
      if (!isObject(record.chunk)) throw new TypeError('chunk')
      timed.push({ time: record.time, chunk: snapshot(record.chunk) })
      continue
    }
    const fragments = isCall ? record.args : record.texts
    if (!Array.isArray(fragments) || fragments.length === 0
      || !fragments.every(text => typeof text === 'string')) throw new TypeError('fragments')
    if (isCall && (typeof record.id !== 'string' || record.id === '')) throw new TypeError('id')
    if (named && (typeof record.name !== 'string' || record.name === '')) throw new TypeError('name')
    if (!Number.isSafeInteger(record.time0)) throw new TypeError('time')
    if (!isCount(record.index)) throw new TypeError('index')
    const { dt, index } = record
    if (!Array.isArray(dt) || !dt.every(Number.isSafeInteger)
      || dt.length !== fragments.length - 1) throw new TypeError('gaps')
    let time = record.time0
    for (const gap of dt) {
      time += gap
      if (!Number.isSafeInteger(time)) throw new TypeError('time range')
    }
    time = record.time0
    for (let at = 0; at < fragments.length; at += 1) {
      if (at > 0) time += dt[at - 1]
      const text = fragments[at]
      let chunk
      if (record.type === 'text-chunks') chunk = { type: 'text-delta', index, text }
      else if (record.type === 'reasoning-chunks') chunk = { type: 'reasoning-delta', index, text }
      else if (named) chunk = { type: 'tool-call-delta', index, id: record.id, name: record.name, argumentsDelta: text }
      else chunk = { type: 'tool-call-delta', index, id: record.id, argumentsDelta: text }
      timed.push({ time, chunk })
    }
  }
  return timed
}

function isToken(chunk) {
  if (chunk.type === 'text-delta' || chunk.type === 'reasoning-delta') return chunk.text !== ''
  return chunk.type === 'tool-call-delta' && (chunk.argumentsDelta !== '' || Object.hasOwn(chunk, 'name'))
}

/** The time of the first token in stream order. */
export function firstTokenTime(records) {
  for (const record of records) {
    if (record.type === 'chunk') {
      if (isToken(record.chunk)) return record.time
      continue
    }
    if (Object.hasOwn(record, 'name')) return record.time0
    let time = record.time0
    const fragments = record.texts ?? record.args
    for (let at = 0; at < fragments.length; at += 1) {
      if (at > 0) time += record.dt[at - 1]
      if (fragments[at] !== '') return time
    }
  }
  return undefined
}

function main([path, runCount]) {
  // Bytes, as a log holds them and as the other side begins with.
  const bytes = readFileSync(path)
  const parsed = JSON.parse(bytes.toString())
  const timed = expand(parsed)
  const accumulate = () => {
    const accumulator = new Accumulator()
    for (const item of timed) accumulator.push(item)
    return JSON.stringify(accumulator.snapshot())
  }
  const tasks = {
    accumulate,
    expand: () => expand(JSON.parse(bytes.toString())),
    expandParsed: () => expand(parsed),
    firstToken: () => firstTokenTime(JSON.parse(bytes.toString())),
    firstTokenParsed: () => firstTokenTime(parsed),
  }
  const runs = Number(runCount)
  const times = {}
  for (const [name, task] of Object.entries(tasks)) {
    // Long enough for the compiler to have made up its mind. Single runs, as in benches/stream.rs.
    const start = process.hrtime.bigint()
    let warm = 0
    while (warm < 10 || process.hrtime.bigint() - start < 300_000_000n) {
      task()
      warm += 1
    }
    times[name] = []
    for (let run = 0; run < runs; run += 1) {
      const start = process.hrtime.bigint()
      task()
      times[name].push(Number(process.hrtime.bigint() - start) / timed.length)
    }
  }
  const digest = {
    count: timed.length,
    timeSum: timed.reduce((sum, { time }) => (sum + time) % 1_000_000_007, 0),
    accumulated: accumulate() === bytes.toString(),
    firstToken: firstTokenTime(parsed) ?? null,
  }
  console.log(JSON.stringify({ version: process.version, times, digest }))
}

main(process.argv.slice(2))
