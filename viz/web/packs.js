// Packs: files in one gzipped file, as tools/web/pack.py makes them. From a server a pack is fetched; a
// page that was opened as a file may not fetch, so there it is read as a script.

'use strict'

const asked = new Map()
globalThis.packed = (name, text) => asked.get(name)(text)

async function readScript(name) {
  const text = await new Promise((resolve, reject) => {
    asked.set(name, resolve)
    const script = document.createElement('script')
    script.onerror = () => reject(new Error(`${name}.pack.js cannot be read`))
    script.src = `${name}.pack.js`
    document.head.append(script)
  })
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0))
}

async function fetchPack(name, arrived) {
  const response = await fetch(`${name}.pack`)
  if (!response.ok) throw new Error(`${name}.pack: the server answers ${response.status}`)
  const transform = (chunk, out) => { arrived(chunk.length), out.enqueue(chunk) }
  return new Uint8Array(await new Response(response.body.pipeThrough(new TransformStream({ transform }))).arrayBuffer())
}

/** The files of a pack: name to bytes. `arrived` hears how many bytes have come, piece by piece. */
async function readPack(name, arrived = () => {}) {
  if (!globalThis.WebAssembly) throw new Error('this browser has no WebAssembly; it may be off in its settings')
  if (!globalThis.DecompressionStream) throw new Error('this browser has no DecompressionStream; browsers from 2023 on have it')
  let bytes = location.protocol === 'file:' ? await readScript(name) : await fetchPack(name, arrived)
  if (bytes[0] === 0x1f && bytes[1] === 0x8b) {  // a server may have undone it already
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))
    bytes = new Uint8Array(await new Response(plain).arrayBuffer())
  }
  const start = 4 + new DataView(bytes.buffer).getUint32(0, true)
  const index = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)))
  return new Map(index.map(({ file, at, size }) => [file, bytes.subarray(start + at, start + at + size)]))
}

function writeFiles(FS, files) {
  for (const [file, bytes] of files) {
    if (!file.startsWith('/')) continue
    FS.mkdirTree(file.slice(0, file.lastIndexOf('/')))
    FS.writeFile(file, bytes)
  }
}

/** An address for a program's script, for a page or a worker. */
const scriptOf = (files, name) => URL.createObjectURL(new Blob([files.get(`${name}.js`)], { type: 'text/javascript' }))
