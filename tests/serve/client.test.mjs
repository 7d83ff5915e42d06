// The openai package against ./course serve: what any program that uses OpenAI's API would see.
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, test } from 'node:test'
import OpenAI from 'openai'
import { Server, sleep, until } from './server.mjs'

let server, client, model
const prompt = 'Once upon a time there was a little'
const messages = [{ role: 'system', content: 'Use simple words.' }, { role: 'user', content: 'Tell me of a cat.' }]
const clientOf = (its, options = {}) => new OpenAI({ baseURL: `${its.url}/v1`, apiKey: 'none', maxRetries: 0, ...options })

before(async () => {
  server = await Server.start('--enable-prompt-tokens-details')
  client = clientOf(server)
  model = (await client.models.list()).data[0].id
})
after(async () => assert.equal(await server.stop(), 0, server.output))

/** All chunks of a stream. */
async function all(stream) {
  const chunks = []
  for await (const chunk of await stream) chunks.push(chunk)
  return chunks
}

test('the model is listed', async () => {
  const { data } = await client.models.list()
  assert.equal(data.length, 1)
  assert.equal(data[0].object, 'model')
  assert.equal(data[0].max_model_len, 2048)
})

test('a completion, and the same one as a stream', async () => {
  const request = { model, prompt, max_tokens: 20, seed: 7 }
  const whole = await client.completions.create(request)
  assert.equal(whole.object, 'text_completion')
  assert.equal(whole.choices[0].finish_reason, 'length')
  assert.equal(whole.usage.completion_tokens, 20)
  const chunks = await all(client.completions.create({ ...request, stream: true, stream_options: { include_usage: true } }))
  assert.equal(chunks.map((chunk) => chunk.choices[0]?.text ?? '').join(''), whole.choices[0].text)
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1)
  assert.equal(chunks.filter((chunk) => chunk.choices[0]?.finish_reason).length, 1)
  assert.deepEqual(chunks.at(-1).choices, [])
  const { prompt_tokens, completion_tokens, total_tokens } = chunks.at(-1).usage
  assert.deepEqual([prompt_tokens, completion_tokens, total_tokens], [whole.usage.prompt_tokens, 20, whole.usage.prompt_tokens + 20])
})

test('a chat: the role comes first, in the same moment as the first text', async () => {
  const request = { model, messages, max_completion_tokens: 12, seed: 1 }
  const whole = await client.chat.completions.create(request)
  assert.equal(whole.object, 'chat.completion')
  assert.equal(whole.choices[0].message.role, 'assistant')
  const chunks = await all(client.chat.completions.create({ ...request, stream: true }))
  assert.deepEqual(chunks[0].choices[0].delta, { role: 'assistant', content: '' })
  assert.equal(chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join(''), whole.choices[0].message.content)
  assert.ok(chunks.every((chunk) => chunk.object === 'chat.completion.chunk' && chunk.usage == null))
})

test('the helper that puts a stream together', async () => {
  const request = { model, messages, max_tokens: 12, seed: 1, n: 3, logprobs: true, top_logprobs: 2 }
  const whole = await client.chat.completions.create(request)
  const joined = await client.chat.completions.stream(request).finalChatCompletion()
  assert.deepEqual(joined.choices.map((choice) => choice.message.content), whole.choices.map((choice) => choice.message.content))
  assert.deepEqual(joined.choices.map((choice) => choice.finish_reason), whole.choices.map((choice) => choice.finish_reason))
  assert.deepEqual(joined.choices.map((choice) => choice.logprobs.content), whole.choices.map((choice) => choice.logprobs.content))
  const deltas = []
  const one = client.chat.completions.stream({ ...request, n: 1 }).on('content', (delta) => deltas.push(delta))
  await one.finalChatCompletion()
  assert.equal(deltas.join(''), whole.choices[0].message.content)
  assert.equal(new Set(whole.choices.map((choice) => choice.message.content)).size, 3)
})

test('log probabilities, stops and echo', async () => {
  const request = { model, prompt, max_tokens: 24, seed: 3, temperature: 0 }
  const whole = await client.completions.create({ ...request, logprobs: 2 })
  const { tokens, token_logprobs, top_logprobs, text_offset } = whole.choices[0].logprobs
  assert.equal(tokens.join(''), whole.choices[0].text)
  assert.ok(token_logprobs.every((value, i) => value <= 0 && top_logprobs[i][tokens[i]] === value))
  assert.ok(text_offset.every((at, i) => i === 0 || at === text_offset[i - 1] + tokens[i - 1].length))
  const stop = whole.choices[0].text.slice(8, 14)
  const stopped = await client.completions.create({ ...request, stop })
  assert.equal(stopped.choices[0].text, whole.choices[0].text.slice(0, whole.choices[0].text.indexOf(stop)))
  assert.equal(stopped.choices[0].finish_reason, 'stop')
  assert.equal(stopped.choices[0].stop_reason, stop)
  const chunks = await all(client.completions.create({ ...request, stop, stream: true }))
  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(''), stopped.choices[0].text)
  const echoed = await client.completions.create({ ...request, echo: true, max_tokens: 4 })
  assert.ok(echoed.choices[0].text.startsWith(prompt))
})

test('what was computed before is found again, and usage says so', async () => {
  const long = { model, prompt: `${prompt} boy. `.repeat(8), max_tokens: 2, seed: 5 }
  const first = await client.completions.create(long), second = await client.completions.create(long)
  assert.equal(first.usage.prompt_tokens_details?.cached_tokens ?? 0, 0)
  assert.ok(second.usage.prompt_tokens_details.cached_tokens >= 16)
  assert.equal(second.choices[0].text, first.choices[0].text)
  const salted = await client.completions.create({ ...long, cache_salt: 'mine' })
  assert.equal(salted.usage.prompt_tokens_details?.cached_tokens ?? 0, 0)
})

test('errors have the classes that the client knows', async () => {
  const chat = (fields) => client.chat.completions.create({ model, messages, max_tokens: 4, ...fields })
  const is = (kind, param) => (error) => error instanceof kind && error.param === param && error.message.length > 10
  await assert.rejects(chat({ model: 'other' }), is(OpenAI.NotFoundError, 'model'))
  await assert.rejects(chat({ messages: 7 }), is(OpenAI.BadRequestError, 'messages'))
  await assert.rejects(chat({ max_tokens: 0 }), is(OpenAI.BadRequestError, 'max_tokens'))
  await assert.rejects(chat({ temperature: -1 }), is(OpenAI.BadRequestError, 'temperature'))
  await assert.rejects(chat({ n: 0 }), is(OpenAI.BadRequestError, 'n'))
  await assert.rejects(chat({ response_format: { type: 'json_object' } }), is(OpenAI.BadRequestError, 'response_format'))
  await assert.rejects(chat({ top_logprobs: 2 }), OpenAI.BadRequestError)
  await assert.rejects(client.completions.create({ model, prompt: 'word '.repeat(4000) }), (error) => error instanceof OpenAI.BadRequestError && /maximum context length/.test(error.message))
  await assert.rejects(client.embeddings.create({ model, input: 'x', encoding_format: 'float' }), OpenAI.NotFoundError)
  assert.equal((await fetch(`${server.url}/v1/chat/completions`)).status, 405)
  const plain = await fetch(`${server.url}/v1/completions`, { method: 'POST', body: '{}', headers: { 'content-type': 'text/plain' } })
  assert.ok([400, 415].includes(plain.status))
  const bad = await server.post('/v1/completions', 'no object')
  assert.equal(bad.status, 400)
  assert.equal(bad.body.error.code, 400)
})

test('a key that is missing or wrong', async () => {
  const locked = await Server.start('--api-key', 'a secret')
  await assert.rejects(clientOf(locked).models.list(), OpenAI.AuthenticationError)
  await assert.rejects(clientOf(locked, { apiKey: 'a secreT' }).completions.create({ model, prompt }), OpenAI.AuthenticationError)
  assert.equal((await clientOf(locked, { apiKey: 'a secret' }).models.list()).data.length, 1)
  assert.equal((await fetch(`${locked.url}/health`)).status, 200)
  assert.equal(await locked.stop(), 0)
})

/** Runs `end` in the middle of a request; all blocks must be free soon, and the server goes on. */
async function aborts(its, end) {
  const before = await its.metrics()
  await end()
  await its.idle()
  const now = await its.metrics()
  const name = 'vllm:request_success_total{finished_reason="abort"}'
  assert.equal(now[name] - (before[name] ?? 0), 1)
}
const long = { prompt, max_tokens: 1900, ignore_eos: true, seed: 1 }

test('an end while tokens come frees all blocks', async () => {
  await aborts(server, async () => {
    const stream = await client.completions.create({ model, ...long, stream: true })
    let count = 0
    for await (const chunk of stream) if (chunk.choices[0].text && ++count === 5) break
  })
})

test('an end without a stream frees all blocks', async () => {
  await aborts(server, () => assert.rejects(client.completions.create({ model, ...long }, { timeout: 300 }), OpenAI.APIConnectionTimeoutError))
})

test('an end while a request waits, and while its prompt is computed', async () => {
  const narrow = await Server.start('--max-running', 1, '--max-tokens-per-pass', 16)
  const its = clientOf(narrow), given = new AbortController()
  const first = its.completions.create({ model, ...long, max_tokens: 1200 })
  await until('one that runs', async () => (await narrow.metrics())['vllm:num_requests_running'] === 1)
  const second = its.completions.create({ model, ...long }, { signal: given.signal })
  await until('one that waits', async () => (await narrow.metrics())['vllm:num_requests_waiting'] === 1)
  given.abort()
  await assert.rejects(second, OpenAI.APIUserAbortError)
  await until('none waits', async () => (await narrow.metrics())['vllm:num_requests_waiting'] === 0)
  assert.equal((await first).usage.completion_tokens, 1200)
  await narrow.idle()
  await aborts(narrow, async () => {
    const ends = new AbortController()
    const prefill = its.completions.create({ model, prompt: 'word '.repeat(1500), max_tokens: 4 }, { signal: ends.signal })
    prefill.catch(() => {})
    await until('one that runs', async () => (await narrow.metrics())['vllm:num_requests_running'] === 1)
    ends.abort()
    await assert.rejects(prefill, OpenAI.APIUserAbortError)
  })
  assert.equal(await narrow.stop(), 0)
})

test('a full queue is refused with 503, and a client that tries again is served', async () => {
  const narrow = await Server.start('--max-running', 1, '--max-queued-requests', 1)
  const its = clientOf(narrow)
  const open = [its.completions.create({ model, ...long })]  // it still runs when the others have come
  await until('one that runs', async () => (await narrow.metrics())['vllm:num_requests_running'] === 1)
  open.push(its.completions.create({ model, ...long, max_tokens: 2 }))
  await until('one that waits', async () => (await narrow.metrics())['vllm:num_requests_waiting'] === 1)
  await assert.rejects(its.completions.create({ model, ...long, max_tokens: 2 }), (error) => error instanceof OpenAI.InternalServerError && error.status === 503 && error.headers.get('retry-after') === '1')
  const again = await clientOf(narrow, { maxRetries: 20 }).completions.create({ model, ...long, max_tokens: 2 })
  assert.equal(again.usage.completion_tokens, 2)
  await Promise.all(open)
  assert.ok((await narrow.metrics())['course:requests_refused_total'] >= 2)
  assert.equal(await narrow.stop(), 0)
})

test('256 streams at once', async () => {
  const request = (i) => ({ model, prompt: `${prompt} ${['cat', 'dog', 'bird', 'fish'][i % 4]}`, max_tokens: 12, seed: i % 32 })
  const alone = []
  for (let i = 0; i < 32; ++i) alone.push((await client.completions.create(request(i))).choices[0].text)
  const agent = new http.Agent({ maxSockets: 512 })
  const streams = Array.from({ length: 256 }, (_, i) => all(client.completions.create({ ...request(i), stream: true }, { httpAgent: agent })))
  const texts = (await Promise.all(streams)).map((chunks) => chunks.map((chunk) => chunk.choices[0].text).join(''))
  texts.forEach((text, i) => assert.equal(text, alone[i % 32]))
  await server.idle()
})

test('SIGTERM lets an answer end, and nothing new begins', async () => {
  const leaving = await Server.start()
  const stream = await clientOf(leaving).completions.create({ model, ...long, max_tokens: 150, stream: true, stream_options: { include_usage: true } })
  const chunks = []
  let stopped
  for await (const chunk of stream) {
    if (chunks.push(chunk) === 3) stopped = leaving.stop()
  }
  assert.equal(chunks.at(-1).usage.completion_tokens, 150)
  assert.equal(await stopped, 0, leaving.output)
  await sleep(20)
  await assert.rejects(clientOf(leaving).models.list(), OpenAI.APIConnectionError)
})
