// Runs tests/ladder/main.cpp in a worker, so that the page stays alive, and shows its numbers.

'use strict'

const button = document.getElementById('run')
const status = document.getElementById('status')
const text = document.getElementById('text')
const table = document.querySelector('table')

// As part of the site it stands in its folder viz.
if (location.pathname.endsWith('/viz/ladder.html')) document.getElementById('home').href = '../index.html'

/** In the worker: a run for each lesson, in a program of its own. Lesson 01 keeps nothing and takes longest: it comes last. */
async function work({ data: { script, wasm, model } }) {
  importScripts(script)
  const quiet = () => {}
  async function climb(number, print) {
    const program = await createLadder({ wasmBinary: wasm, print, printErr: quiet, noExitRuntime: true })
    writeFiles(program.FS, model)
    postMessage({ running: number })
    const code = program.callMain(['--device', 'cpu', '--model', '/course/models/tiny', '--lessons', `${number}`, '--json', '/ladder.json'])
    if (code === 0) postMessage({ rung: JSON.parse(program.FS.readFile('/ladder.json', { encoding: 'utf8' })).lessons[0] })
    return code
  }
  let number = 2
  let code = await climb(number, (line) => postMessage({ line }))  // all lessons write the same
  while (code === 0) code = await climb(++number, quiet)
  // Code 2 refuses the number after the last lesson.
  if (code === 2 && number > 2) code = await climb(1, quiet)
  postMessage({ ended: code })
}

const bytes = (n) => n === 0 ? '-' : n < 1 << 20 ? `${(n / 1024).toFixed(0)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`

const rungs = []

/** A row for each lesson of lessons.js, before it has run. */
function prepare() {
  table.tBodies[0].replaceChildren()
  for (const name of lessons) {
    const row = table.tBodies[0].insertRow()
    row.insertCell().textContent = name.replace('_', ' ')
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

function show(rung) {
  rungs.push(rung)
  const row = rowOf(Number(rung.lesson))
  const cells = [rung.kv_rows_computed.toLocaleString('en'), rung.passes, rung.max_sequences,
    bytes(rung.kv_bytes_reserved), bytes(rung.kv_bytes_used), bytes(rung.kv_bytes_copied), rung.logits_xxh64,
    `${(1e3 * rung.first_token_seconds).toFixed(0)} ms`, rung.seconds.toFixed(1)]
  row.className = ''
  row.deleteCell(1)
  for (const cell of cells) row.insertCell().textContent = cell
  row.cells[7].className = 'digest'
}

function begin(number) {
  const row = rowOf(number)
  if (!row) return  // the number after the last lesson, which the program refuses
  tell(row, 'runs now', true)
  status.textContent = `Lesson ${String(number).padStart(2, '0')} runs, ${rungs.length} of ${lessons.length} have run.`
}

function sumUp(code) {
  for (const row of table.querySelectorAll('.now, .waits')) tell(row, row.className === 'now' ? 'stopped' : 'not run')
  const same = new Set(rungs.map((rung) => rung.logits_xxh64)).size === 1
  status.textContent = code ? `The ladder ended with ${code} after ${rungs.length} lessons.`
    : same ? `All ${rungs.length} lessons have the same bits: ${rungs[0].logits_xxh64}` : 'The bits differ. This must not be.'
}

async function run() {
  button.disabled = true
  text.textContent = ''
  rungs.length = 0
  prepare()
  status.textContent = 'Loading ...'
  const [files, model] = await Promise.all([readPack('ladder'), readPack('model')])
  const code = URL.createObjectURL(new Blob([`${writeFiles}\nonmessage = ${work}`], { type: 'text/javascript' }))
  const worker = new Worker(code)
  worker.onmessage = ({ data }) => {
    if (data.line !== undefined) text.textContent += `${data.line}\n`
    if (data.running) begin(data.running)
    if (data.rung) show(data.rung)
    if (data.ended === undefined) return
    sumUp(data.ended)
    worker.terminate()
    button.disabled = false
  }
  worker.onerror = (error) => { status.textContent = `The ladder stopped: ${error.message}` }
  worker.postMessage({ script: scriptOf(files, 'ladder'), wasm: files.get('ladder.wasm'), model })
}

button.addEventListener('click', () => run().catch((error) => { status.textContent = `The ladder cannot begin: ${error.message}` }))
prepare()
