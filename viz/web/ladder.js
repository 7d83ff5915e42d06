// Runs tests/ladder/main.cpp in a worker, so that the page stays alive, and shows its numbers.

'use strict'

const button = document.getElementById('run')
const status = document.getElementById('status')
const text = document.getElementById('text')
const table = document.querySelector('table')

/** In the worker. */
async function work({ data: { script, wasm, model } }) {
  importScripts(script)
  const print = (kind) => (line) => postMessage({ [kind]: line })
  const program = await createLadder({ wasmBinary: wasm, print: print('line'), printErr: print('progress'), noExitRuntime: true })
  writeFiles(program.FS, model)
  const code = program.callMain(['--device', 'cpu', '--model', '/course/models/tiny', '--json', '/ladder.json'])
  postMessage(code ? { failed: code } : { rungs: JSON.parse(program.FS.readFile('/ladder.json', { encoding: 'utf8' })).lessons })
}

const bytes = (n) => n === 0 ? '-' : n < 1 << 20 ? `${(n / 1024).toFixed(0)} KiB` : `${(n / (1 << 20)).toFixed(1)} MiB`

function show(rungs) {
  table.hidden = false
  table.tBodies[0].replaceChildren(...rungs.map((rung) => {
    const row = document.createElement('tr')
    const cells = [`${rung.lesson} ${rung.topic}`, rung.kv_rows_computed.toLocaleString('en'), rung.passes, rung.max_sequences,
      bytes(rung.kv_bytes_reserved), bytes(rung.kv_bytes_used), bytes(rung.kv_bytes_copied), rung.logits_xxh64,
      `${(1e3 * rung.first_token_seconds).toFixed(0)} ms`, rung.seconds.toFixed(1)]
    for (const cell of cells) row.insertCell().textContent = cell
    row.cells[7].className = 'digest'
    return row
  }))
  const same = new Set(rungs.map((rung) => rung.logits_xxh64)).size === 1
  status.textContent = same ? `All ${rungs.length} lessons have the same bits: ${rungs[0].logits_xxh64}` : 'The bits differ. This must not be.'
}

async function run() {
  button.disabled = true
  text.textContent = ''
  status.textContent = 'Loading ...'
  const [files, model] = await Promise.all([readPack('ladder'), readPack('model')])
  const code = URL.createObjectURL(new Blob([`${writeFiles}\nonmessage = ${work}`], { type: 'text/javascript' }))
  const worker = new Worker(code)
  worker.onmessage = ({ data }) => {
    if (data.line !== undefined) text.textContent += `${data.line}\n`
    if (data.progress !== undefined) status.textContent = data.progress
    if (data.rungs) show(data.rungs)
    if (data.failed) status.textContent += ` (the ladder ended with ${data.failed})`
    if (data.rungs || data.failed) worker.terminate()
    button.disabled = !(data.rungs || data.failed)
  }
  worker.onerror = (error) => { status.textContent = `The ladder stopped: ${error.message}` }
  status.textContent = 'running lesson 01 ...'
  worker.postMessage({ script: scriptOf(files, 'ladder'), wasm: files.get('ladder.wasm'), model })
}

button.addEventListener('click', () => run().catch((error) => { status.textContent = `The ladder cannot begin: ${error.message}` }))
