// Runs tests/ladder/main.cpp in a worker, so that the page stays alive, and shows its numbers.

'use strict'

const button = document.getElementById('run')
const status = document.getElementById('status')
const text = document.getElementById('text')
const table = document.querySelector('table')

/** In the worker: a run for each lesson, in a program of its own. */
async function work({ data: { script, wasm, model, numbers } }) {
  importScripts(script)
  for (const number of numbers) {
    const isFirst = number === numbers[0]
    const print = (line) => isFirst && postMessage({ line })  // all lessons write the same
    const printErr = (line) => {
      const [, done, all] = /^(\d+) of (\d+) tokens$/.exec(line) ?? []
      postMessage(done ? { done: Number(done), all: Number(all) } : { error: line })
    }
    const program = await createLadder({ wasmBinary: wasm, print, printErr, noExitRuntime: true })
    writeFiles(program.FS, model)
    postMessage({ running: number })
    const code = program.callMain(['--device', 'cpu', '--model', '/course/models/tiny', '--lessons', `${number}`, '--progress', '--json', '/ladder.json'])
    if (code !== 0) return postMessage({ failed: code })
    postMessage({ rung: JSON.parse(program.FS.readFile('/ladder.json', { encoding: 'utf8' })).lessons[0] })
  }
  postMessage({ ended: true })
}

// ---- numbers, as the program prints them in its own table

const fixed = (x) => x.toLocaleString('en', { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false, roundingMode: 'halfEven' })

function bytes(n) {
  const units = ['B', 'KiB', 'MiB', 'GiB']
  const unit = n > 0 ? Math.min(Math.floor(Math.log2(n) / 10), 3) : 0
  const value = n / 2 ** (10 * unit)
  return n === 0 ? '-' : `${Number.isInteger(value) ? value : fixed(value)} ${units[unit]}`
}

const cellsOf = (rung) => [
  rung.kv_rows_computed.toLocaleString('en'), rung.passes, rung.max_sequences, bytes(rung.kv_bytes_reserved),
  rung.kv_bytes_reserved > 0 ? `${fixed((100 * (rung.kv_bytes_reserved - rung.kv_bytes_used)) / rung.kv_bytes_reserved)} %` : '-',
  bytes(rung.kv_bytes_copied), rung.logits_xxh64, `${fixed(1e3 * rung.first_token_seconds)} ms`, (rung.tokens / rung.seconds).toFixed(0)]

// ---- the table

const rungs = []
let now = null  // the lesson that runs: its row, and when it began

/** A row for each lesson of contents.js, before it has run. */
function prepare() {
  rungs.length = 0
  table.tBodies[0].replaceChildren()
  for (const name of lessons) {
    const row = table.tBodies[0].insertRow()
    const link = row.insertCell().appendChild(document.createElement('a'))
    link.textContent = name.replace('_', ' ')
    link.href = addressOf(`lessons/${name}/README.md`) || `index.html#page=${name.slice(0, 2)}`
    row.insertCell().colSpan = 9
    tell(row, 'not run yet')
  }
}

/** What a row says that has no numbers yet. */
function tell(row, state, isNow = false) {
  row.cells[1].textContent = state
  row.className = isNow ? 'now' : 'waits'
}

const rowOf = (number) => [...table.rows].find((row) => Number.parseInt(row.cells[0].textContent, 10) === number)

function begin(number) {
  now = { row: rowOf(number), since: performance.now() }
  tell(now.row, 'runs now', true)
  status.textContent = `Lesson ${String(number).padStart(2, '0')} runs; ${rungs.length} of ${lessons.length} have run.`
}

/** How far the lesson is and, after two seconds and a twentieth of it, how long the rest takes at this speed. */
function advance(done, all) {
  const seconds = (performance.now() - now.since) / 1000
  const rest = Math.ceil((seconds * (all - done)) / done)
  const left = seconds < 2 || done < all / 20 ? '' : rest < 100 ? `about ${rest} s left, ` : `about ${Math.round(rest / 60)} minutes left, `
  tell(now.row, `${left}${done} of ${all} tokens`, true)
}

function show(rung) {
  rungs.push(rung)
  const { row } = now
  row.className = ''
  row.deleteCell(1)
  cellsOf(rung).forEach((text, i) => Object.assign(row.insertCell(), { textContent: text }).dataset.name = table.tHead.rows[0].cells[i + 1].textContent)
  row.cells[7].className = 'digest'
  delete row.cells[7].dataset.name  // it is known when seen
}

// ---- a run

let worker = null

/** `why`: what kept lessons from running; empty if all have run. */
function end(why) {
  worker?.terminate()
  worker = null
  for (const row of table.querySelectorAll('.now, .waits')) tell(row, row.className === 'now' ? 'stopped' : 'not run')
  const digest = rungs[0]?.logits_xxh64
  const other = rungs.find((rung) => rung.logits_xxh64 !== digest)
  const count = rungs.length === 0 ? why : why ? `${why} ${rungs.length} of ${lessons.length} lessons have run` : `All ${rungs.length} lessons have run`
  status.textContent = other ? `${count}. Lesson ${other.lesson} gives other bits than lesson ${rungs[0].lesson}: the promise is broken.`
    : rungs.length > 1 ? `${count}, and their bits are the same: ${digest}` : `${count}`
  button.textContent = 'Run the ladder'
  button.disabled = false
}

async function run() {
  button.disabled = true
  text.textContent = ''
  prepare()
  status.textContent = 'Loading the engines and the model ...'
  const [files, model] = await Promise.all([readPack('ladder'), readPack('model')])
  const code = `${writeFiles}\n${work}\nonmessage = (event) => work(event).catch(({ message }) => postMessage({ broken: message }))`
  let error = ''
  worker = new Worker(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })))
  worker.onmessage = ({ data }) => {
    if (data.line !== undefined) text.textContent += `${data.line}\n`
    if (data.error) error = data.error
    if (data.running) begin(data.running)
    if (data.done) advance(data.done, data.all)
    if (data.rung) show(data.rung)
    if (data.failed) end(`The program ended with exit code ${data.failed}: ${error}.`)
    if (data.broken) end(`The program broke off: ${data.broken}.`)
    if (data.ended) end('')
  }
  // Lesson 01 keeps nothing and takes longest: it comes last.
  const numbers = lessons.map((name) => Number.parseInt(name, 10))
  worker.postMessage({ script: scriptOf(files, 'ladder'), wasm: files.get('ladder.wasm'), model, numbers: [...numbers.slice(1), numbers[0]] })
  button.textContent = 'Stop'
  button.disabled = false
}

button.addEventListener('click', () => (worker ? end('Stopped.') : run().catch((error) => end(`The ladder cannot begin: ${error.message}.`))))
prepare()
