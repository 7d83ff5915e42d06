// What the search looks through, what it finds a page by, and what comes first.

// The field's words for what a page is about, where its text has others.
export const fieldWords = {
  'docs/architecture': 'architecture',
  'docs/equal-bits': 'determinism deterministic reproducibility batch invariance invariant',
  'docs/gpu': 'CUDA introduction',
  'docs/how-to-measure': 'benchmark profiling roofline',
  'docs/launches': 'CUDA graphs PDL programmatic dependent launch',
  'docs/proof': 'proof tests testing correctness verification',
  'docs/simt': 'simt simulator emulator CUDA without a GPU race detector',
  'docs/vllm-map': 'map to vLLM',
  'instruments/route/': 'load balancing balancer KV-aware cache-aware routing disaggregated prefill disaggregation',
  'instruments/serve/': 'OpenAI API HTTP server',
  'kernels/attention/': 'FlashAttention flash attention',
  'kernels/road/': 'GEMM matmul matrix multiplication',
  'lessons/01_no_cache/': 'recomputation self-attention autoregressive decoding',
  'lessons/02_flat_cache/': 'contiguous static preallocated KV cache size memory per token',
  'lessons/03_paged_blocks/': 'PagedAttention paging page table virtual memory block allocator fragmentation',
  'lessons/04_paged_attention/': 'paged attention PagedAttention kernel flash decoding FlashDecoding split-K online softmax',
  'lessons/05_refcount_cow/': 'copy-on-write reference counting parallel sampling beam search',
  'lessons/06_prefix_hashing/': 'prefix caching automatic prefix cache APC prompt caching RadixAttention radix tree LoRA',
  'lessons/07_lru_eviction/': 'eviction evict cache replacement policy least recently used',
  'lessons/08_scheduler/': 'continuous batching in-flight dynamic batching chunked prefill preemption preempt scheduling token budget',
  'lessons/09_lookahead/': 'speculative decoding speculation draft model n-gram prompt lookup rejection sampling',
  'lessons/10_windows/': 'sliding window attention SWA local attention hybrid models',
  'lessons/11_host_tier/': 'offload offloading CPU swap swapping swap space host memory pinned PCIe hierarchical cache',
  'lessons/12_file_tier/': 'disk SSD NVMe storage persistence persistent',
  'lessons/13_shared_tier/': 'distributed remote KV cache connector LMCache Mooncake Redis disaggregated prefill transfer',
  'lessons/14_fp8_pages/': 'quantization quantisation quantized quantised KV cache dtype FP8 compression',
}

/** The text of a page for the index: none for source code, and the field's words in the section of its heading. */
export function searched(text, env, md) {
  const html = md.render(text, env)
  if (env.frontmatter?.search === false) return ''
  const words = fieldWords[env.relativePath.replace(/(README)?\.md$/, '')]
  return words ? html.replace(/<h2|$/, `<p>${words}</p>$&`) : html
}

// These run in the browser, from their text: nothing out of this file is there.
export const searchOptions = {
  // A page comes first for the words of its title and its address, then lessons, the glossary's terms, and what explains.
  boostDocument: (id, term, { title, titles }) => {
    const isTop = titles.length === 0
    const isNamed = isTop && `${title} ${id.replace(/#.*/, '')}`.toLowerCase().split(/[^\p{L}\p{N}]+/u).includes(term)
    if (/\/lessons\/[^/]+\/(#|$)/.test(id)) return isNamed ? 6 : isTop ? 4 : 1.5
    if (/\/glossary\.html#/.test(id)) return 2
    if (/\/exercise\/|CONTRIBUTING/.test(id)) return 0.5
    return isNamed ? 6 : isTop ? 1.5 : 1
  },
  // "on" is no word to look for, and no part of "lesson"; "map" is no MLP.
  processTerm: (term) => (/^(an?|and|are|as|at|by|for|in|is|it|of|on|or|the|to|with)$/i.test(term) ? null : term.toLowerCase()),
  prefix: (term) => term.length > 2,
  fuzzy: (term) => (term.length > 4 ? 0.2 : false),
}
