// soak.mjs MINUTES: a mixed load with aborts on a small pool, for so long. At the end the blocks are free, the counters
// of /metrics add up, and resident memory has not grown since the load began to repeat itself.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { Server, sleep } from './server.mjs'

const minutes = Number(process.argv[2] ?? 30), clients = 24
assert.ok(minutes > 0 && minutes <= 600, 'soak.mjs MINUTES, more than 0 and at most 600')
const server = await Server.start('--num-blocks', 60, '--max-model-len', 512, '--max-queued-requests', 12, '--check-equal-bits', 0.05)

const below = (n) => Math.floor(Math.random() * n)
const words = 'the a little cat dog bird girl boy went to find saw his her big red ball and was very happy'.split(' ')
const text = (length) => Array.from({ length }, () => words[below(words.length)]).join(' ')
const fresh = Array.from({ length: 6 }, () => text(60))
const seen = { choices: 0, length: 0, stop: 0, abort: 0, refused: 0, bad: 0, aborted: 0 }

const status = (name) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${server.process.pid}/status`, 'utf8'))[1])
const descriptors = () => fs.readdirSync(`/proc/${server.process.pid}/fd`).length

/** One request of some kind; most end by themselves. */
async function one() {
  const chat = below(3) === 0, prompt = `${below(2) ? fresh[below(fresh.length)] : ''} ${text(1 + below(80))}`
  const body = { max_tokens: 1 + below(40), seed: below(50), n: below(8) ? 1 : 2, stream: below(2) === 0, ...(below(6) ? {} : { stop: ['.', ' the'] }),
    ...(chat ? { messages: [{ role: 'user', content: prompt }] } : { prompt }), ...(below(9) ? {} : { logprobs: chat ? true : 2 }), ...(below(40) ? {} : { temperature: -1 }) }
  const ends = new AbortController()
  const clock = below(6) === 0 ? setTimeout(() => ends.abort(), below(300)) : null
  try {
    const answer = await fetch(`${server.url}/v1/${chat ? 'chat/' : ''}completions`, { method: 'POST', signal: ends.signal, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    const whole = await answer.text()
    if (answer.status === 503) return void (seen.refused++, await sleep(20 + below(100)))
    if (answer.status === 400) return void seen.bad++
    assert.equal(answer.status, 200, whole)
    const reasons = [...whole.matchAll(/"finish_reason":"(\w+)"/g)].map((found) => found[1])
    assert.equal(reasons.length, body.n, whole)
    for (const reason of reasons) seen.choices++, seen[reason]++
  } catch (error) {
    if (!ends.signal.aborted) throw error
    seen.aborted++
  } finally {
    clearTimeout(clock)
  }
}

const end = performance.now() + minutes * 60_000
let running = true
const all = Promise.all(Array.from({ length: clients }, async () => {
  while (running) await one()
}))
all.catch((error) => (running = false, console.error(error)))

const memory = []
for (let shown = 0; running && performance.now() < end;) {
  await sleep(Math.min(5000, minutes * 6000))
  memory.push(status('VmRSS'))
  if (performance.now() - shown < 60_000) continue
  shown = performance.now()
  console.log(`${((end - shown) / 60_000).toFixed(1)} minutes left: ${memory.at(-1)} KiB resident, ${JSON.stringify(seen)}`)
}
running = false
await all
await server.idle(30)
await sleep(200)
const now = await server.metrics(), value = (name) => now[name] ?? 0
const ended = (reason) => value(`vllm:request_success_total{finished_reason="${reason}"}`)

// What has ended, by reason and by every histogram; an abort may be too late, or have come before a request was taken.
const total = ended('stop') + ended('length') + ended('abort')
assert.ok(ended('stop') >= seen.stop && ended('length') >= seen.length)
assert.ok(total - seen.choices >= 0 && total - seen.choices <= 2 * seen.aborted, `${total} ended, ${seen.choices} seen whole, ${seen.aborted} aborted`)
assert.ok(value('course:requests_refused_total') >= seen.refused)
for (const name of ['e2e_request_latency_seconds', 'request_prompt_tokens', 'request_generation_tokens']) {
  const count = value(`vllm:${name}_count`)
  assert.ok(count >= ended('stop') + ended('length') && count <= total, `${name}: ${count} of ${total}`)
  assert.equal(value(`vllm:${name}_bucket{le="+Inf"}`), count)
}
assert.ok(value('vllm:time_to_first_token_seconds_count') <= total)
assert.ok(value('vllm:request_generation_tokens_sum') <= value('vllm:generation_tokens_total'))
assert.ok(value('vllm:prefix_cache_hits_total') <= value('vllm:prefix_cache_queries_total'))
assert.ok(value('vllm:external_prefix_cache_hits_total') <= value('vllm:external_prefix_cache_queries_total'))
assert.ok(value('course:equal_bits_checked_total') > 0)
assert.equal(value('course:equal_bits_failed_total'), 0)

const quarter = Math.max(1, Math.floor(memory.length / 4)), mean = (values) => values.reduce((sum, one) => sum + one, 0) / values.length
const early = mean(memory.slice(quarter, 2 * quarter)), late = mean(memory.slice(-quarter)), growth = late / early - 1
console.log(`${minutes} minutes: ${JSON.stringify(seen)}`)
console.log(`resident memory ${early.toFixed(0)} KiB in the second quarter, ${late.toFixed(0)} KiB in the last: ${(100 * growth).toFixed(2)} %; ${descriptors()} descriptors, ${status('Threads')} threads`)
console.log(`${value('vllm:num_preemptions_total')} preemptions, ${value('course:equal_bits_checked_total')} requests computed twice, all equal`)
assert.ok(minutes < 5 || growth < 0.01, 'resident memory grew by 1 % or more')
assert.equal(await server.stop(), 0, server.output)
