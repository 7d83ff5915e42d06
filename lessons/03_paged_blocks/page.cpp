#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"
#include "page_paged.h"

namespace lesson03 {

viz::PageInfo PagedPage::info() const {
  return {
      .lesson = "03",
      .title = "Paged blocks",
      .summary = "A token's place: its block by division and the table, its offset by the rest.",
      .commands = {"new NAME                 a sequence without tokens",
                   "append NAME N            N more tokens",
                   "free NAME                drop the sequence: its blocks go back",
                   "point NAME TOKEN         show where the token lies",
                   "resize BLOCKS SIZE       an empty pool of BLOCKS blocks of SIZE tokens",
                   "live \"PROMPT\" [TOKENS]   watch the engine: the prompt, and its first half",
                   "step [N]                 N more tokens of the live run",
                   "stop                     back from the live run"}};
}

void PagedPage::reset() {
  live_.reset();
  engine_.reset();
  pointed_.reset();
  hovered_.reset();
  pool_ = std::make_unique<NamedSequences>(kNumBlocks, kBlockSize);
}

std::string PagedPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "live") return start(command);
  if (verb == "point") return point(command);
  if (verb == "step") {
    viz::run_steps(live_.get(), command);
    return story();
  }
  if (verb == "stop") {
    command.check_count(0, 0);
    if (!live_) kv::user_error("stop: there is no live run");
    live_.reset();
    engine_.reset();
    pointed_.reset();
    return "the live run is over; the pool is as it was";
  }
  return simulate(command);
}

std::string PagedPage::simulate(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb != "new" && verb != "append" && verb != "free" && verb != "resize") {
    kv::user_error(
        "{}: no such command; there are new, append, free, point, resize, live, step, stop", verb);
  }
  if (live_) kv::user_error("{}: the engine is running; `stop` leads back", verb);
  const bool two = verb == "append" || verb == "resize";
  command.check_count(two ? 2 : 1, two ? 2 : 1);
  if (verb == "resize") {
    const auto blocks = command.number(0, "a number of blocks", 1, NamedSequences::kMaxBlocks);
    const auto size = command.number(1, "a block size", 1, 256);
    pool_ = std::make_unique<NamedSequences>(static_cast<int>(blocks), static_cast<int>(size));
    pointed_.reset();
    return fmt::format("a pool of {} blocks of {} tokens, all free", blocks, size);
  }
  const std::string& name = command.word(0, "the name of a sequence");
  if (verb == "new") return pool_->add(name);
  if (verb == "append") {
    return pool_->append(name,
                         static_cast<int>(command.number(1, "a number of tokens", 1, 1 << 20)));
  }
  const std::string story = pool_->free(name);
  if (pointed_ && pointed_->name == name) pointed_.reset();
  return story;
}

std::string PagedPage::point(const viz::Command& command) {
  command.check_count(2, 2);
  const std::string& name = command.word(0, "the name of a sequence");
  const BlockTable* table = table_of(name);
  if (table == nullptr) kv::user_error("point: there is no sequence {}", name);
  if (table->num_tokens() == 0) kv::user_error("point: {} has no token yet", name);
  const auto token = static_cast<int>(command.number(1, "a token", 0, table->num_tokens() - 1));
  pointed_ = {name, token};
  const Place place = table->place(token);
  return fmt::format("token {} of {}: block {}, offset {}, slot {}", token, name, place.block_id,
                     place.offset, table->slot(token));
}

std::string PagedPage::start(const viz::Command& command) {
  command.check_count(1, 2);
  if (live_) kv::user_error("live: the engine is running already; `stop` ends it");
  const auto tokens = static_cast<int>(
      command.args.size() < 2 ? 40 : command.number(1, "a number of tokens", 1, 400));
  std::vector<kv::Request> requests{model_.request(command.word(0, "a prompt"), tokens)};
  requests.push_back(requests[0]);
  requests[1].prompt.resize((requests[0].prompt.size() + 1) / 2);
  requests[1].max_tokens = (tokens + 1) / 2;
  const PagedOptions options{.block_size = pool_->manager().block_size(),
                             .num_blocks = pool_->manager().pool().num_blocks()};
  std::unique_ptr<PagedEngine> engine = make_paged_engine(model_.model(), options);
  live_ = std::make_unique<viz::LiveRequests>(*engine, std::move(requests));
  engine_ = std::move(engine);
  pointed_.reset();
  return story();
}

std::string PagedPage::story() {
  const BlockPool& pool = manager().pool();
  if (live_->finished()) {
    pointed_.reset();
    return fmt::format("the run has ended: {} of {} blocks are free", pool.num_free(),
                       pool.num_blocks());
  }
  if (pointed_ && table_of(pointed_->name) == nullptr) pointed_.reset();
  const viz::LiveRun::Token& token = live_->generated().back();
  return fmt::format("request {} draws \"{}\"; {} blocks in use for {} tokens", token.request,
                     viz::token_text(model_.tokenizer(), token.id), pool.num_used(),
                     manager().num_tokens());
}

std::vector<std::string> PagedPage::names() const {
  if (!live_) return pool_->names();
  std::vector<std::string> names;
  for (size_t i = 0; i < live_->size(); ++i) {
    if (engine_->sequence_of(i) >= 0) names.push_back(fmt::format("R{}", i));
  }
  return names;
}

const BlockTable* PagedPage::table_of(const std::string& name) const {
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return nullptr;
  if (!live_) return &pool_->table(name);
  return &manager().table(engine_->sequence_of(static_cast<size_t>(name[1] - '0')));
}

std::optional<int64_t> PagedPage::counter(std::string_view name) const {
  const BlockPool& pool = manager().pool();
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "used") return pool.num_used();
  if (name == "block_size") return manager().block_size();
  if (name == "sequences") return static_cast<int64_t>(names().size());
  if (name == "tokens") return manager().num_tokens();
  if (name == "empty_slots") {
    return int64_t{pool.num_used()} * manager().block_size() - manager().num_tokens();
  }
  if (name == "live") return live_ ? 1 : 0;
  if (name == "generated") return live_ ? static_cast<int64_t>(live_->generated().size()) : 0;
  if (name.rfind("point.", 0) == 0) {
    if (!pointed_) return -1;
    const BlockTable& table = *table_of(pointed_->name);
    if (name == "point.block") return table.place(pointed_->token).block_id;
    if (name == "point.offset") return table.place(pointed_->token).offset;
    if (name == "point.slot") return table.slot(pointed_->token);
    return std::nullopt;
  }
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const BlockTable* table = table_of(std::string(name.substr(0, dot)));
  if (table == nullptr) return std::nullopt;
  if (name.substr(dot) == ".tokens") return table->num_tokens();
  if (name.substr(dot) == ".blocks") return table->num_blocks();
  return std::nullopt;
}

std::vector<std::string> PagedPage::counter_names() const {
  std::vector<std::string> all{"total",       "free",        "used",         "block_size",
                               "sequences",   "tokens",      "live",         "generated",
                               "empty_slots", "point.block", "point.offset", "point.slot"};
  for (const std::string& name : names()) {
    all.push_back(name + ".tokens");
    all.push_back(name + ".blocks");
  }
  return all;
}

void PagedPage::check_invariants() const {
  pool_->check();
  if (live_) manager().check();
  if (pointed_) {
    const BlockTable* table = table_of(pointed_->name);
    if (table == nullptr || pointed_->token >= table->num_tokens()) {
      throw std::logic_error("the page points at a token that is not there");
    }
  }
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PagedPage>(context);
}

}  // namespace lesson03
