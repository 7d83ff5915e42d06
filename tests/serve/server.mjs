// What the tests share: a server of ./course serve on a free port, and what its /metrics say.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))
export const bin = process.env.SERVE_BIN ?? path.join(root, 'build', process.env.COURSE_PRESET ?? 'default', 'bin')

export const sleep = (ms) => new Promise((ok) => setTimeout(ok, ms))

/** Waits until `holds()` is true; fails with `what` after `seconds`. Returns the milliseconds that passed. */
export async function until(what, holds, seconds = 20) {
  const begin = performance.now()
  while (!(await holds())) {
    assert.ok(performance.now() - begin < seconds * 1000, `not in ${seconds} s: ${what}`)
    await sleep(5)
  }
  return performance.now() - begin
}

/** The samples of Prometheus's text, by name and labels: {'vllm:num_requests_running': 0, ...}. Labels that all have are left out. */
export function samples(text) {
  const found = {}
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
    assert.ok(parts, `no sample of Prometheus's: ${line}`)
    const labels = (parts[2] ?? '').split(/,(?=\w+=")/).filter((label) => label && !/^(engine|model_name)=/.test(label))
    found[parts[1] + (labels.length ? `{${labels.join()}}` : '')] = Number(parts[3].replace('+Inf', 'Infinity'))
  }
  return found
}

const running = new Set()
process.on('exit', () => running.forEach((its) => its.kill('SIGKILL'))) // those of tests that have failed

export class Server {
  /** Starts the server with these options, and waits until it listens. */
  static async start(...options) {
    const server = new Server()
    server.process = spawn(path.join(bin, 'serve'), ['--port', '0', '--device', 'cpu', ...options.map(String)], { stdio: ['ignore', 'pipe', 'pipe'] })
    running.add(server.process)
    for (const handle of [server.process, server.process.stdout, server.process.stderr]) handle.unref()
    server.output = ''
    for (const stream of [server.process.stdout, server.process.stderr]) stream.on('data', (bytes) => (server.output += bytes))
    server.ended = new Promise((ok) => server.process.on('close', (code, signal) => (running.delete(server.process), ok(code ?? signal))))
    await until(`a server that listens:\n${server.output}`, () => server.process.exitCode !== null || /http:\/\/\S+:\d+/.test(server.output), 60)
    const address = /http:\/\/\S+:\d+/.exec(server.output)
    assert.ok(address, `the server ended: ${server.output}`)
    server.url = address[0]
    return server
  }

  async metrics() {
    return samples(await (await fetch(`${this.url}/metrics`)).text())
  }

  /** Nothing runs or waits, and all blocks are free. */
  async idle(seconds = 20) {
    return until('all blocks free', async () => {
      const now = await this.metrics()
      return now['vllm:num_requests_running'] === 0 && now['vllm:num_requests_waiting'] === 0 && now['vllm:kv_cache_usage_perc'] === 0
    }, seconds)
  }

  async post(route, body) {
    const answer = await fetch(this.url + route, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, body: text ? JSON.parse(text) : null }
  }

  /** The events of a stream, up to [DONE]. */
  async *events(route, body) {
    const answer = await fetch(this.url + route, {
      method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ ...body, stream: true }),
    })
    assert.equal(answer.status, 200, answer.status === 200 ? '' : await answer.text())
    let text = ''
    for await (const bytes of answer.body.pipeThrough(new TextDecoderStream())) {
      text += bytes
      for (let at; (at = text.indexOf('\n\n')) >= 0; text = text.slice(at + 2)) {
        assert.ok(text.startsWith('data: '), text)
        const data = text.slice(6, at)
        if (data === '[DONE]') return
        yield JSON.parse(data)
      }
    }
    assert.fail('a stream without [DONE]')
  }

  /** SIGTERM; returns the exit code. */
  async stop() {
    this.process.ref()
    this.process.kill('SIGTERM')
    return this.ended
  }
}
