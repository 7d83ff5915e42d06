#include "engine.h"

namespace lesson07 {

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<CachingEngine>(model, options);
}

}  // namespace lesson07
