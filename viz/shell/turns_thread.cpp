#include <semaphore>
#include <thread>

#include "viz/shell/turns.h"

namespace viz {

struct Turns::Sides {
  std::binary_semaphore go_on{0}, stands_still{0};
  std::thread thread;
};

Turns::Turns(std::function<void()> work) : sides_(std::make_unique<Sides>()) {
  sides_->thread = std::thread([sides = sides_.get(), work = std::move(work)] {
    sides->go_on.acquire();
    work();
    sides->stands_still.release();
  });
}

Turns::~Turns() { sides_->thread.join(); }

void Turns::go_on() {
  sides_->go_on.release();
  sides_->stands_still.acquire();
}

void Turns::stand_still() {
  sides_->stands_still.release();
  sides_->go_on.acquire();
}

}  // namespace viz
