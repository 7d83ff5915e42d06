// Code as a reader wants it: a listing begins in its first column, and an option or a name is not broken at a hyphen.

const longest = 20  // characters of code in a line of text that stay together

/** The text without the spaces that all of its lines begin with. */
export function dedented(text) {
  const depths = text.split('\n').filter((line) => line.trim()).map((line) => line.search(/\S/))
  return depths.length > 0 ? text.replace(new RegExp(`^ {${Math.min(...depths)}}`, 'gm'), '') : text
}

export function code(md) {
  md.core.ruler.push('site_code', (state) => {
    for (const token of state.tokens) {
      if (token.type === 'fence') token.content = dedented(token.content)
      for (const part of token.children ?? []) {
        if (part.type === 'code_inline' && part.content.length <= longest) part.attrJoin('class', 'whole')
      }
    }
  })
}
