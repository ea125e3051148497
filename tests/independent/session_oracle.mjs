// What the original's published session package makes of logs: its surface fold, messages, request header and closers.
//
//   node session_oracle.mjs ORACLE < logs
//
// ORACLE is the folder with the installed oracle. Each line of the input is a JSON array of generation 0 events; each line
// of the output is what the package says of it. The package is called, never looked into.

import { createInterface } from 'node:readline'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [oracle] = process.argv.slice(2)
if (!oracle) {
  console.error('usage: node session_oracle.mjs ORACLE < logs')
  process.exit(2)
}
const entry = join(oracle, 'node_modules/@deepseek-ai/dsh-session/lib/index.js')
const session = await import(pathToFileURL(entry).href)

const attempt = (call) => {
  try {
    return { ok: call() }
  } catch (error) {
    return { refused: String(error.message) }
  }
}

const judge = (events) => {
  const surface = attempt(() => session.foldSurface(events))
  // Both trust that their events were taken before.
  const { ok: header } = attempt(() => session.foldRequestHeader(events))
  const { ok: closers } = attempt(() => session.interruptedTurnClosers(events))
  const live = attempt(() => {
    const made = session.Session.create('s', events)
    return {
      nodes: made.surface.nodes,
      generation: made.surface.replaceGeneration,
      messages: made.deriveMessages().map((message) => JSON.stringify(message)),
      header: JSON.stringify(made.requestHeader()) ?? null,
      context: JSON.stringify(made.requestContext()) ?? null,
      first: made.firstLiveSeq,
      length: made.seq,
    }
  })
  return {
    surface,
    live,
    header: header === undefined ? null : JSON.stringify(header),
    closers: closers?.map((event) => JSON.stringify(event)) ?? null,
  }
}

// The companion checks the trace of a live session: it refuses an append that does not fit.
const traced = async (steps) => {
  const load = (name) => import(pathToFileURL(join(oracle, 'node_modules/@deepseek-ai', name)).href)
  const { Context } = await load('cordis/lib/index.js')
  const ctx = new Context()
  await ctx.plugin((await load('dsh-invariants/lib/index.js')).default)
  await ctx.plugin(session.default)
  await ctx.plugin(await load('dsh-session/lib/invariant.js'))
  const live = ctx.sessions.create('s')
  const onSurface = { surfaceOp: 'append' }
  return steps.map(([type, data]) => {
    if (type === 'rewrite') {
      const nodes = live.surface.nodes.filter((seq) => live.events[seq].type === 'tool/result')
      if (nodes.length === 0) return 'nothing'
      const seq = nodes[nodes.length - 1]
      const copy = structuredClone(live.events[seq].data)
      copy.message.content[0].content = []
      const intent = { surfaceOp: { op: 'replace', start: seq, end: seq }, sourceEventSeqs: [seq] }
      return attempt(() => live.append('tool/result', copy, intent).seq)
    }
    const intent = session.isSurfaceEligibleType(type) ? [onSurface] : []
    return attempt(() => live.append(type, data, ...intent).seq)
  })
}

// Two headers a line: whether they are equal.
const compare = ([a, b]) => session.headerEquals(session.canonicalHeader(a), session.canonicalHeader(b))

for await (const line of createInterface({ input: process.stdin })) {
  const { events, headers, steps } = JSON.parse(line)
  const said = events ? judge(events) : headers ? compare(headers) : await traced(steps)
  process.stdout.write(`${JSON.stringify(said)}\n`)
}
