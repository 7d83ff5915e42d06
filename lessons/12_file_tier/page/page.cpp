#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <stdexcept>

#include "common/at_end.h"
#include "viz/ui.h"

namespace lesson12 {
namespace {

/// The places where damage is found.
constexpr struct {
  int64_t FileMetrics::*count;
  const char *name, *where;
} kDamage[] = {{&FileMetrics::num_damaged_in_file, "in_file", "in the file"},
               {&FileMetrics::num_damaged_to_host, "to_host", "on the way to the host"},
               {&FileMetrics::num_damaged_in_host, "in_host", "in the host's memory"},
               {&FileMetrics::num_damaged_to_device, "to_device", "on the way to the device"}};

/// One layer with one head of one number.
kv::ModelConfig smallest() {
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return config;
}

}  // namespace

Process::Process(const std::filesystem::path& path, const PageSettings& settings)
    : cache(smallest(), stream, settings.device + 1, kBlockSize),
      memory(kShape.bytes_per_block, kv::Device::kCpu, settings.host + 1),
      file(path, kShape),
      tiers(cache, memory, &file, stream, {}, kv::RunJobs::kAtOnce),
      scheduler(tiers.manager(), {.max_tokens_per_pass = 16}) {}

void Process::write(const lesson08::Chunk& chunk) {
  const lesson08::ScheduledRequest& request = scheduler.request(chunk.id);
  const auto blocks = tiers.manager().table(chunk.id).block_ids();
  for (int i = request.num_computed; i < request.num_computed + chunk.num_tokens; ++i) {
    const auto block = cache.block(0, blocks[static_cast<size_t>(i / kBlockSize)]);
    static_cast<float*>(block.k)[i % kBlockSize] =
        static_cast<float>(request.tokens[static_cast<size_t>(i)]);
    static_cast<float*>(block.v)[i % kBlockSize] = static_cast<float>(i);
  }
}

void Process::check() {
  scheduler.check();
  tiers.manager().check();
  const lesson06::PrefixIndex& index = tiers.manager().pool().index();
  const auto same = [](int32_t token, float number) { return static_cast<float>(token) == number; };
  for (int32_t id = 1; id < index.num_ids(); ++id) {
    if (index.block(id) == nullptr) continue;
    const std::span held(static_cast<const float*>(cache.block(0, id).k), kBlockSize);
    if (std::ranges::equal(index.tokens(id), held, same)) continue;
    throw std::logic_error(fmt::format("block {} does not hold what it is found by", id));
  }
}

FileTierPage::FileTierPage(const viz::PageContext& context)
    : PoolPage({.lesson = "12",
                .title = "A file that survives",
                .summary = "Block i of the host is record i of a file. The next start finds what "
                           "is whole there, whatever happened in between."},
               context) {
  declare(viz::unless(
      [this] { return process_ ? "" : "no server runs; `restart`"; },
      {{"submit",
        {viz::word("NAME").field("name", "A"), viz::number("PROMPT", 1, 128).field("prompt", "12"),
         viz::number("MAX", 1, 128).field("to generate", "4")},
        "a request: the first PROMPT tokens of NAME's text, MAX to generate",
        [this](auto& w) { return submit(w); },
        [this](auto& w) { return why_not_submit(w); }},
       {"pass",
        {viz::number("COUNT", 1, 1000).or_else("1")},
        "COUNT passes; what was offloaded is written to the file before the next one",
        [this](auto& w) {
          for (int i = 0; i < w[0].number && !process_->scheduler.idle(); ++i) pass();
          if (reason_.empty()) reason_ = kv::count_of(computed_, "token") + " computed so far";
          return tell(reason_);
        },
        [this](auto&) { return process_->scheduler.idle() ? "there is nothing to do" : ""; },
        true},
       {"write",
        {},
        "what has been offloaded is checked, and written to the file",
        [this](auto&) {
          process_->tiers.complete();
          return tell("what was offloaded is in the file");
        }},
       {"cut",
        {viz::number("WRITES", 0, 1000), viz::number("LOST", 0, 1000).or_else("0")},
        "the power goes after WRITES writes of what has been offloaded; write LOST did not reach "
        "the disk",
        [this](auto& w) { return cut_power(w[0].number, w[1].number); }}}));
  declare({{"end",
            {},
            "the server ends, and with it all that is not in the file",
            [this](auto&) {
              process_->tiers.flush(0);
              end();
              return tell("the server ends: its memory is gone, and the file stays");
            },
            [this](auto&) { return process_ ? "" : "no server runs; `restart`"; }},
           {"restart",
            {},
            "the server ends, if it runs, and starts with what is in the file",
            [this](auto&) {
              if (process_) process_->tiers.flush(0);
              end();
              return start();
            }},
           {"damage",
            {viz::choice("device|host|file"), viz::word("BLOCK")},
            "a bit of BLOCK flips: on its way to the device, in the host's memory, or in the file",
            [this](auto& w) { return damage(w); },
            [this](auto& w) {
              if (find(static_cast<size_t>(w[0].number), w[1].text) > 0) return "";
              return w[0].number == kDevice ? "no such block is on its way to the device"
                                            : "no such block is whole there";
            }},
           anew("pool", {viz::number("DEVICE", 2, 16), viz::number("HOST", 1, 24)},
                "start anew with an empty file, and blocks on the device and in the host",
                &PageSettings::device, &PageSettings::host)});
  reset();
}

std::string FileTierPage::begin() {
  process_.reset();
  if (!folder_) folder_.emplace();
  path_ = folder_->path() / "kv.blocks";
  std::filesystem::remove(path_);
  asked_.clear();
  names_.clear();
  next_id_ = num_starts_ = 0;
  start();
  reason_.clear();
  return "all blocks are empty, and so is the file";
}

std::string FileTierPage::start() {
  process_ = std::make_unique<Process>(path_, settings_);
  found_ = computed_ = 0;
  told_ = {};
  return tell(fmt::format("start {}: {} restored from the file", ++num_starts_,
                          kv::count_of(process_->tiers.metrics().num_restored, "block")));
}

void FileTierPage::end() {
  for (const size_t shelf : {kDevice, kHost}) {
    num_lost_[shelf] = 0;
    if (!process_) continue;
    const HostTierManager& manager = process_->tiers.manager();
    const auto& index = (shelf == kDevice ? manager.pool() : manager.host()).index();
    for (int32_t id = 1; id < index.num_ids(); ++id) num_lost_[shelf] += index.block(id) != nullptr;
  }
  process_.reset();
  for (Asked& asked : asked_) {
    if (std::exchange(asked.is_there, false)) asked.doing = "was cut off";
  }
}

std::string FileTierPage::why_not_submit(const viz::Words& words) const {
  const Asked* const known = asked_.find(words[0].text);
  if (known != nullptr && known->is_there) return "a request " + known->name + " is there";
  return known == nullptr ? asked_.why_not_add(words[0].text) : "";
}

std::string FileTierPage::submit(const viz::Words& words) {
  const std::string& name = words[0].text;
  process_->scheduler.check_fits(next_id_, static_cast<size_t>(words[1].number), words[2].number);
  Asked& asked = asked_.find(name) ? asked_.at(name) : asked_.add(name, {});
  asked.id = next_id_++;
  asked.num_prompt = words[1].number;
  asked.max_tokens = words[2].number;
  asked.generated = asked.num_found = 0;
  asked.is_there = true;
  while (std::ssize(asked.text) < asked.num_prompt + asked.max_tokens) {
    asked.text.push_back(asked.hue * kOwnTokens + static_cast<int32_t>(asked.text.size()) + 1);
  }
  lesson06::BlockHashes hashes;
  hashes.extend(asked.text, kBlockSize, {});
  for (size_t i = 0; i < hashes.all().size(); ++i) {
    names_.try_emplace(hashes.all()[i], asked.hue, fmt::format("{}{}", name, i));
  }
  const auto prompt = std::span(asked.text).first(static_cast<size_t>(asked.num_prompt));
  process_->scheduler.submit(asked.id, prompt, asked.max_tokens);
  return tell(name + " comes");
}

/// Runs a step of the server without a model.
void FileTierPage::pass() {
  Tiers& tiers = process_->tiers;
  Server::Scheduler& scheduler = process_->scheduler;
  tiers.complete();
  load_waiting(scheduler, tiers.manager());
  const lesson08::SchedulerOutput output = scheduler.schedule();
  if (output.chunks.empty()) {
    tiers.manager().wait_for_load();
    reason_ = "blocks come back from the host; the device has not looked at them yet";
  }
  tiers.swapper().wait(tiers.manager().take_write_job());
  for (const int64_t id : output.started) {
    Asked& asked = *std::ranges::find(asked_, id, &Asked::id);
    asked.num_found = scheduler.request(id).num_cached;
    found_ += asked.num_found;
    reason_ =
        fmt::format("{} starts: {} found", asked.name, kv::count_of(asked.num_found, "token"));
  }
  for (const lesson08::Chunk& chunk : output.chunks) {
    process_->write(chunk);
    computed_ += chunk.num_tokens;
  }
  scheduler.update(output.chunks);
  for (Asked& asked : asked_) {
    if (!asked.is_there || !scheduler.wants_token(asked.id)) continue;
    const int next = asked.num_prompt + asked.generated++;
    scheduler.add_token(asked.id, asked.text[static_cast<size_t>(next)]);
    if (asked.generated < asked.max_tokens) continue;
    asked.is_there = !scheduler.finish(asked.id);
    asked.doing = "has ended";
  }
  tiers.offload(settings_.device, 0);
}

std::string FileTierPage::cut_power(int num_writes, int lost) {
  const FileLayout layout(kShape);
  std::vector<std::string> writes{"none"};  // what each of them is for
  int32_t last_record = 0;
  kv::File::reaches_disk = [&](int64_t at, std::span<const std::byte> bytes) {
    const auto record = static_cast<int32_t>(1 + (at - kPage) / layout.stride);
    const char* const part = at == layout.content_of(record)           ? "content"
                             : std::ssize(bytes) < layout.header_bytes ? "name"
                                                                       : "header";
    writes.push_back(fmt::format("record {}'s {}", record, part));
    const bool is_written = std::ssize(writes) <= num_writes + 1;
    if (is_written) last_record = record;
    return is_written && std::ssize(writes) != lost + 1;
  };
  const kv::AtEnd no_more{[] { kv::File::reaches_disk = nullptr; }};
  process_->tiers.complete();
  end();
  const auto num_all = static_cast<int>(writes.size()) - 1, last = std::min(num_writes, num_all);
  const auto name_of = [&](int write) { return writes[static_cast<size_t>(write)]; };
  return tell(fmt::format("power cut after {} of {} writes; the last: {}; lost: {}", last, num_all,
                          name_of(last), name_of(lost <= last ? lost : 0)),
              viz::shelf_block_id(kFile, last_record));
}

/// The block of this name; 0 if there is none that can be damaged.
int32_t FileTierPage::find(size_t shelf, const std::string& name) const {
  const viz::ShelfBlocks& blocks = now_.shelves[shelf].blocks;
  const auto found = std::ranges::find_if(blocks, [&](const viz::ShelfBlock& block) {
    return block.name == name && !block.foot.empty() && block.state != viz::State::kEvicted;
  });
  return found == blocks.end() ? 0 : static_cast<int32_t>(found - blocks.begin());
}

std::string FileTierPage::damage(const viz::Words& words) {
  const auto shelf = static_cast<size_t>(words[0].number);
  const int32_t id = find(shelf, words[1].text);
  constexpr std::byte kBit{4};
  if (shelf == kDevice) *static_cast<std::byte*>(process_->cache.block(0, id).k) ^= kBit;
  if (shelf == kHost) process_->memory.block(id)[0] ^= kBit;
  if (shelf == kFile) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    const int64_t at = FileLayout(kShape).content_of(id);
    const int byte = file.seekg(at).get();
    file.seekp(at).put(static_cast<char>(byte ^ std::to_integer<int>(kBit)));
  }
  return tell("a bit of " + words[1].text + " flips", viz::shelf_block_id(words[0].number, id));
}

/// Returns the text of what happened, and of the damage found since the last call, with its place.
std::string FileTierPage::tell(std::string what, std::string points_at) {
  reason_ = std::move(what);
  points_at_ = std::move(points_at);
  if (!process_) return reason_;
  const FileMetrics was = std::exchange(told_, process_->tiers.metrics());
  for (const auto& [count, name, where] : kDamage) {
    const int64_t num_lost = told_.*count - was.*count;
    if (num_lost == 0) continue;
    if (!reason_.empty()) reason_ += "; ";
    reason_ += fmt::format("damage found {}: {} lost", where, kv::count_of(num_lost, "block"));
  }
  return reason_;
}

std::vector<viz::Counter> FileTierPage::counters() const {
  const FileMetrics metrics = process_ ? process_->tiers.metrics() : FileMetrics{};
  const auto count = [&](viz::State state) {
    return std::ranges::count(now_.shelves[kFile].blocks, state, &viz::ShelfBlock::state);
  };
  std::vector<viz::Counter> all{
      {"starts", num_starts_, "starts", "Processes so far that had this file."},
      {"restored", metrics.num_restored, "restored", "Blocks that this start found in the file."},
      {"found", found_, "found", "Tokens that this start did not compute again."},
      {"computed", computed_, "computed", "Tokens that this start has computed."},
      {"valid", count(viz::State::kCached), "valid", "Records that hold a block now."},
      {"damaged", count(viz::State::kEvicted), "damaged", "Records with a wrong checksum."},
      {"unsaved", process_ ? process_->tiers.num_unsaved() : 0}};
  for (const auto& [number, name, where] : kDamage) all.push_back({name, metrics.*number});
  for (const Asked& asked : asked_) {
    all.push_back({asked.name + ".found", asked.num_found});
    all.push_back({asked.name + ".ended", asked.doing == "has ended"});
  }
  return all;
}

void FileTierPage::check_invariants() const {
  if (process_) process_->check();
}

void FileTierPage::draw(viz::Ui& ui) {
  form(ui, {"submit", "Submit", "submit"});
  buttons(ui, {{"pass", "Pass", "pass"}, {"write", "Write", "write"}});
  choice(ui, "Cut the power after",
         {{"cut 2", "2 writes", "cut 2"}, {"cut 3 2", "3, one lost", "cut 3 2"}});
  if (const size_t space = selected().find(' '); space != std::string::npos) {  // a block
    buttons(ui, {{"damage", "Damage" + selected().substr(space), "damage " + selected()}});
  }
  buttons(ui, {{"end", "End the server", "end"}, {"restart", "Restart", "restart"}});
  choice(ui, "Blocks: device, host",
         {{"pool 10", "10, 14", "pool 10 14"}, {"pool", "16, 24", "pool 16 24"}});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<FileTierPage>(context);
}

}  // namespace lesson12
