// A small server for the built site, on this machine only: it compresses, as servers of static sites do.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import zlib from 'node:zlib'

const types = {
  '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.svg': 'image/svg+xml', '.png': 'image/png', '.wasm': 'application/wasm', '.txt': 'text/plain; charset=utf-8',
}

/** The file that an address means, or nothing. */
function fileOf(folder, base, address) {
  const { pathname } = new URL(address, 'http://localhost')
  if (!pathname.startsWith(base)) return
  const file = path.join(folder, path.normalize('/' + decodeURIComponent(pathname.slice(base.length))))
  const index = file.endsWith('/') ? file + 'index.html' : file
  return fs.existsSync(index) && fs.statSync(index).isFile() ? index : undefined
}

/** Serves `folder` at `base` of a port, 0 for any that is free; resolves to the server. */
export function serve(folder, { base = '/', port = 0 } = {}) {
  const compressed = new Map()
  const server = http.createServer((request, response) => {
    const file = fileOf(folder, base, request.url)
    if (!file) {
      const page = path.join(folder, '404.html')  // the site's own, as servers of static sites answer
      if (!fs.existsSync(page)) return response.writeHead(404).end('not found')
      return response.writeHead(404, { 'Content-Type': types['.html'] }).end(fs.readFileSync(page))
    }
    const type = types[path.extname(file)] ?? 'application/octet-stream'
    if (type === 'image/png') return response.writeHead(200, { 'Content-Type': type }).end(fs.readFileSync(file))
    if (!compressed.has(file)) compressed.set(file, zlib.gzipSync(fs.readFileSync(file)))
    response.writeHead(200, { 'Content-Type': type, 'Content-Encoding': 'gzip' }).end(compressed.get(file))
  })
  return new Promise((resolve, reject) => server.once('error', reject).listen(port, '127.0.0.1', () => resolve(server)))
}
