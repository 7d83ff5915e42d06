// ./course site in a terminal: Ctrl-C ends it while VitePress is busy.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const make = fileURLToPath(new URL('../make.mjs', import.meta.url))

/** Loaded into each process: the one that builds is busy for half a minute after its first line. */
const busy = `
const { write } = process.stderr
process.stderr.write = function (text, ...more) {
  const done = write.call(this, text, ...more)
  if (/building/.test(text)) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30_000)
  return done
}
`

test('Ctrl-C in a terminal ends a build that is busy', { timeout: 120_000 }, async (t) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'site-'))
  t.after(() => fs.rmSync(folder, { recursive: true, force: true }))
  fs.writeFileSync(path.join(folder, 'busy.cjs'), busy)
  const command = `stty cols 120; exec '${process.execPath}' '${make}' --out '${folder}/site'`
  const env = { ...process.env, NODE_OPTIONS: `--require ${folder}/busy.cjs` }
  const terminal = spawn('script', ['-qec', command, '/dev/null'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => terminal.kill('SIGKILL'))
  const ended = new Promise((resolve) => terminal.once('exit', (code) => resolve(code)))
  await new Promise((resolve) => terminal.stdout.on('data', (text) => /building/.test(text) && resolve()))
  terminal.stdin.write('\x03')
  const late = new Promise((resolve) => setTimeout(resolve, 10_000, 'still builds').unref())
  assert.equal(await Promise.race([ended, late]), 130)
  assert.ok(!fs.existsSync(path.join(folder, 'site')))
})
