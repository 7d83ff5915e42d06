// Builds the site with VitePress; make.mjs runs it and says where the site goes, in the environment.
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vitepress'

/** What VitePress prints has colour wherever it goes. */
function withoutColour(stream) {
  if (stream.isTTY && !process.env.NO_COLOR) return
  const write = stream.write.bind(stream)
  stream.write = (text, ...more) => write(typeof text === 'string' ? text.replace(/\x1b\[[0-9;]*m/g, '') : text, ...more)
}

withoutColour(process.stdout)
withoutColour(process.stderr)
await build(path.dirname(fileURLToPath(import.meta.url)))
