// The same request gets the same bytes, whatever else the server is doing: texts, token ids and log probabilities of
// 200 requests, alone and among 255 others, are compared with ===.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { bin, Server } from './server.mjs'

const count = 200, others = 56 // so that each of the 200 has 255 beside it

/** Numbers from a seed, equal on every machine (mulberry32). */
function dice(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}

const words = 'the a little cat dog bird girl boy went to find saw his her big red ball and was very happy in garden one day'.split(' ')
const sentence = (roll, length) => Array.from({ length }, () => words[roll(words.length)]).join(' ')
const systems = [11, 12, 13].map((seed) => `Use simple words. ${sentence(dice(seed), 40)}.`)

/** Request i of `count`: shared prefixes, chats and completions, n of 4, stops, greedy and not, with log probabilities. */
function request(i) {
  const roll = dice(1000 + i)
  const question = `Once upon a time ${sentence(roll, 3 + roll(30))}`
  const body = { max_tokens: 4 + roll(20), seed: i, return_token_ids: true, temperature: [0, 0.7, 1, 1.3][roll(4)] }
  if (roll(4) === 0) body.top_p = 0.9
  if (roll(4) === 0) body.top_k = 20
  if (i % 10 === 3) body.n = 4
  if (i % 7 === 2) body.stop = [['.'], [' the', ' a '], ['and', ' was', 'h']][roll(3)]
  if (i % 6 === 1) body.ignore_eos = true
  const chat = i % 3 === 0, system = systems[roll(systems.length)]
  if (chat) Object.assign(body, { messages: [{ role: 'system', content: system }, { role: 'user', content: question }] })
  else body.prompt = roll(2) ? `${system} ${question}` : question
  if (i % 2 === 0) Object.assign(body, chat ? { logprobs: true, top_logprobs: 3 } : { logprobs: 3 })
  return { route: chat ? '/v1/chat/completions' : '/v1/completions', body }
}

/** What must be equal: all of an answer but its id, its time, and what the cache had. */
const bytes = (answer) => JSON.stringify(answer.choices)
const textOf = (choice) => choice.text ?? choice.message?.content ?? choice.delta?.content ?? ''

async function answer(server, { route, body }) {
  const { status, body: answered } = await server.post(route, body)
  assert.equal(status, 200, JSON.stringify(answered))
  return answered
}

/** The same as a stream; only texts and finish reasons, joined. */
async function streamed(server, { route, body }) {
  const choices = {}
  for await (const event of server.events(route, body)) {
    for (const choice of event.choices) {
      const mine = (choices[choice.index] ??= { text: '', ids: [], reason: null })
      mine.text += textOf(choice)
      mine.ids.push(...(choice.token_ids ?? []))
      mine.reason ??= choice.finish_reason
    }
  }
  return choices
}

let alone // answers of the 200, each with nothing beside it
test('the reference: one after the other, without caching, prompts in one pass', async () => {
  const server = await Server.start('--no-caching', '--no-chunked-prefill', '--max-tokens-per-pass', 2048)
  alone = []
  for (let i = 0; i < count; ++i) alone.push(await answer(server, request(i)))
  assert.equal(await server.stop(), 0, server.output)
  assert.ok(new Set(alone.map(bytes)).size > count * 0.9)
  assert.ok(alone.some((one) => one.choices.length === 4))
  assert.ok(alone.some((one) => one.choices.some((choice) => choice.stop_reason)))
})

/** All 200 at once, and the others beside them; half of these end early. */
async function inCompany(server) {
  const noise = Array.from({ length: others }, (_, i) => {
    const { route, body } = request(count + i)
    const ends = new AbortController()
    if (i % 2) setTimeout(() => ends.abort(), 20 * i)
    return fetch(server.url + route, { method: 'POST', signal: ends.signal, headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, max_tokens: 40, stream: i % 3 === 0 }) }).then((got) => got.text()).catch(() => {})
  })
  const answers = await Promise.all(alone.map((_, i) => (i % 5 === 4 ? streamed(server, request(i)) : answer(server, request(i)))))
  await Promise.all(noise)
  return answers
}

function compare(answers, how) {
  answers.forEach((got, i) => {
    if (got.choices) return assert.equal(bytes(got), bytes(alone[i]), `request ${i}, ${how}`)
    for (const choice of alone[i].choices) {
      const mine = got[choice.index]
      assert.deepEqual([mine.text, mine.ids, mine.reason], [textOf(choice), choice.token_ids, choice.finish_reason], `request ${i} as a stream, ${how}`)
    }
  })
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'serve-equal-'))
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }))
const tight = ['--max-model-len', 512, '--num-blocks', 80]
const host = ['--host-blocks', 400]
const ways = [
  { how: 'much memory', options: [] },
  { how: 'little memory, so that requests are preempted', options: tight, preempted: true },
  { how: 'little memory, chunks of 32, blocks of 8', options: [...tight, '--num-blocks', 100, '--block-size', 8, '--max-tokens-per-pass', 32], preempted: true },
  { how: 'little memory, prompts in one pass', options: [...tight, '--no-chunked-prefill', '--max-tokens-per-pass', 512], preempted: true },
  { how: 'by priority, without caching', options: [...tight, '--no-caching', '--order', 'priority'], preempted: true },
  { how: 'guesses (lesson 9)', options: ['--lesson', 9, ...tight], preempted: true },
  { how: 'groups of layers (lesson 10)', options: ['--lesson', 10, ...tight], preempted: true },
  { how: 'a host tier (lesson 11)', options: ['--lesson', 11, ...tight, ...host] },
  { how: 'a file tier (lesson 12)', options: ['--lesson', 12, ...tight, ...host, '--file', path.join(folder, 'blocks')] },
  { how: 'after a restart, with the blocks of the file', options: ['--lesson', 12, ...tight, ...host, '--file', path.join(folder, 'blocks')], hits: true },
]
for (const { how, options, preempted, hits } of ways) {
  test(`among 255 others: ${how}`, async () => {
    const server = await Server.start(...options.reduceRight(unique, []))
    if (hits) {
      const before = await server.metrics()
      compare([await answer(server, request(0))], how)
      const name = 'vllm:external_prefix_cache_hits_total'
      assert.ok((await server.metrics())[name] > before[name], 'the file had its blocks')
    }
    compare(await inCompany(server), how)
    await server.idle()
    const counts = await server.metrics()
    if (!options.includes('--no-caching')) assert.ok(counts['vllm:prefix_cache_hits_total'] > 0)
    if (preempted) assert.ok(counts['vllm:num_preemptions_total'] > 0, 'a pool so small that requests are preempted')
    assert.equal(await server.stop(), 0, server.output)
  })
}

/** Of options that are given twice the last one counts. */
function unique(kept, word, at, all) {
  const is = (it) => String(it).startsWith('--')
  if (!is(word)) return kept
  const values = []
  for (let i = at + 1; i < all.length && !is(all[i]); ++i) values.push(all[i])
  return kept.includes(word) ? kept : [word, ...values, ...kept]
}

test('the text that ./course run 2 gives for the same prompt and seed', () => {
  const plain = alone.map((_, i) => ({ i, ...request(i).body })).filter(({ prompt, n, stop, top_p, top_k, ignore_eos }) =>
    prompt && !n && !stop && !top_p && !top_k && !ignore_eos)
  assert.ok(plain.length > 8 && new Set(plain.map(({ temperature }) => temperature)).size > 2)
  for (const { i, prompt, max_tokens, seed, temperature } of plain.slice(0, 12)) {
    const options = Object.entries({ prompt, 'max-tokens': max_tokens, seed, temperature }).flatMap(([name, value]) => [`--${name}`, value])
    const done = spawnSync(path.join(bin, 'lesson02'), ['--device', 'cpu', '--json', '-', ...options], { encoding: 'utf8' })
    assert.equal(done.status, 0, done.stderr)
    const [{ text, token_ids }] = JSON.parse(done.stdout).completions, [mine] = alone[i].choices
    assert.deepEqual([text, token_ids], [mine.text, mine.token_ids], `request ${i}`)
  }
})
