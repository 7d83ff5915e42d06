#include <emscripten/fiber.h>

#include <array>

#include "viz/shell/turns.h"

namespace viz {

struct Turns::Sides {
  static constexpr size_t kStackBytes = size_t{1} << 20;
  static constexpr size_t kSavedBytes = size_t{64} << 10;  // of the calls that stand still

  std::function<void()> work;
  emscripten_fiber_t page{}, fiber{};
  alignas(16) std::array<char, kStackBytes> stack;
  std::array<char, kSavedBytes> saved_page, saved;

  static void run(void* sides) {
    auto* const self = static_cast<Sides*>(sides);
    self->work();
    emscripten_fiber_swap(&self->fiber, &self->page);  // for the last time
  }
};

Turns::Turns(std::function<void()> work) : sides_(std::make_unique<Sides>()) {
  sides_->work = std::move(work);
  emscripten_fiber_init(&sides_->fiber, Sides::run, sides_.get(), sides_->stack.data(),
                        Sides::kStackBytes, sides_->saved.data(), Sides::kSavedBytes);
}

Turns::~Turns() = default;

void Turns::go_on() {
  emscripten_fiber_init_from_current_context(&sides_->page, sides_->saved_page.data(),
                                             Sides::kSavedBytes);
  emscripten_fiber_swap(&sides_->page, &sides_->fiber);
}

void Turns::stand_still() { emscripten_fiber_swap(&sides_->fiber, &sides_->page); }

}  // namespace viz
