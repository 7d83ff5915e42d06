// Any bytes as a batch of KV events: a UserError of one line, or a batch that a mirror takes, and
// that is the same after it was written and read again.
#include "common/error.h"
#include "instruments/watch/event_mirror.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace watch;
  try {
    const EventBatch batch = decode(kv::fuzz::text(data, size));
    const EventBatch again = decode(encode(batch));
    kv::fuzz::require(batch.ts == again.ts && batch.events == again.events);
    EventMirror mirror(4);
    const Changes changes = mirror.apply(batch);
    kv::fuzz::require(changes.cleared > 0 ||
                      changes.stored - changes.removed == mirror.num_blocks());
    for (const Chain& chain : mirror.chains()) {
      kv::fuzz::require(chain.num_blocks > 0);
      kv::fuzz::require(mirror.blocks_of(chain).back() == chain.last);
    }
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
  }
  return 0;
}
