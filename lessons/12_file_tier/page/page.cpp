#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <utility>

#include "common/defer.h"
#include "numbers.h"
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

}  // namespace

Process::Process(const std::filesystem::path& path, const PageSettings& settings)
    : cache(one_number(), stream, settings.device + 1, kBlockSize),
      regions(lesson05::regions_of(cache, stream)),
      memory(kShape.bytes_per_block, kv::Device::kCpu, settings.host + 1),
      file(path, kShape),
      tiers(regions, memory, &file, stream, {}, kv::RunJobs::kAtOnce),
      scheduler(tiers.manager(), {.max_tokens_per_pass = 16}) {}

void Process::write(const lesson08::Chunk& chunk) {
  write_numbers(cache, tiers.manager().table(chunk.id).block_ids(), scheduler.request(chunk.id),
                chunk.num_tokens);
}

void Process::check() {
  scheduler.check();
  tiers.manager().check();
  viz::check_found(tiers.manager().pool().index(),
                   [&](int32_t id, auto tokens) { return has_numbers(cache, id, tokens); });
}

FileTierPage::FileTierPage(const viz::PageContext& context)
    : PoolPage({.lesson = "12",
                .title = "A file that survives",
                .summary = "Block i of the host is record i of a file. The next start finds what "
                           "is whole there, whatever happened in between.",
                .opening = {"submit A 20 4", "pass 9"}},
               context) {
  declare(viz::unless(
      [this] { return process_ ? "" : "no server runs; `restart`"; },
      {{"submit",
        {viz::word("NAME").field("name", "A"), viz::number("PROMPT", 1, 128).field("prompt", "12"),
         viz::number("MAX", 1, 128).field("to generate", "4")},
        "a request: the first PROMPT tokens of NAME's text, MAX to generate",
        [this](auto& w) { return submit(w); },
        [this](auto& w) { return viz::why_not_come(shown_.asked, w[0].text); }},
       {"pass",
        {viz::number("COUNT", 1, 1000).or_else("1")},
        "let the server go on by COUNT; what was offloaded is written before its next pass",
        [this](auto& w) {
          const int64_t before = computed_;
          for (int i = 0; i < w[0].number && !process_->scheduler.idle(); ++i) pass();
          if (shown_.reason.empty()) {
            shown_.reason =
                fmt::format("The server computes {}. The file still lacks {} of the host.",
                            kv::count_of(computed_ - before, "token"),
                            kv::count_of(process_->tiers.num_unsaved(), "block"));
          }
          return tell(shown_.reason);
        },
        [this](auto&) { return process_->scheduler.idle() ? "there is nothing to do" : ""; },
        true},
       {"write",
        {},
        "what has been offloaded is checked, and written to the file",
        [this](auto&) {
          process_->tiers.complete();
          const int64_t written = process_->tiers.metrics().num_saved - told_.num_saved;
          return tell(fmt::format("The file now has {} more, whatever happens to the server.",
                                  kv::count_of(written, "block")));
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
              return tell("The server ends: its memory is lost, and the file stays.");
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
              if (find(w[0].number, w[1].text) > 0) return "";
              return w[0].number == kDevice ? "no such block is on its way to the device"
                                            : "no such block is whole there";
            }},
           fresh("pool", {viz::number("DEVICE", 2, 16), viz::number("HOST", 1, 24)},
                 "start over with an empty file, and blocks on the device and in the host",
                 &PageSettings::device, &PageSettings::host)});
  reset();
}

std::string FileTierPage::begin() {
  process_.reset();
  if (!folder_) folder_.emplace();
  path_ = folder_->path() / "kv.blocks";
  std::filesystem::remove(path_);
  shown_ = {};
  names_.clear();
  next_id_ = 0;
  start();
  shown_.reason.clear();
  return "All blocks are empty, and so is the file.";
}

std::string FileTierPage::start() {
  process_ = std::make_unique<Process>(path_, settings_);
  shown_.found = computed_ = 0;
  told_ = {};
  return tell(fmt::format("Server {} starts, and finds {} whole in the file.", ++shown_.num_starts,
                          kv::count_of(process_->tiers.metrics().num_restored, "block")));
}

void FileTierPage::end() {
  for (const size_t shelf : {kDevice, kHost}) {
    shown_.num_lost[shelf] = 0;
    if (!process_) continue;
    const HostTierManager& manager = process_->tiers.manager();
    const auto& index = (shelf == kDevice ? manager.pool() : manager.host()).index();
    for (int32_t id = 1; id < index.num_ids(); ++id)
      shown_.num_lost[shelf] += index.block(id) != nullptr;
  }
  process_.reset();
  for (Asked& asked : shown_.asked) {
    if (!std::exchange(asked.ended, true)) asked.doing = "was cut off";
  }
}

std::string FileTierPage::submit(const viz::Words& words) {
  const std::string& name = words[0].text;
  process_->scheduler.check_fits(next_id_, words[1].number, words[2].number);
  Asked& asked = shown_.asked.find(name) ? shown_.asked.at(name) : shown_.asked.add(name, {});
  asked.begin(next_id_++, words[1].number, words[2].number);
  lesson06::BlockHashes hashes;
  hashes.extend(asked.text, kBlockSize, {});
  viz::label_blocks(names_, asked, hashes.all());
  process_->scheduler.submit(asked.id, asked.prompt(), asked.max_tokens);
  return tell(fmt::format("{} comes with a prompt of {}, {} to generate, and waits.", name,
                          kv::count_of(asked.num_prompt, "token"), asked.max_tokens));
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
    shown_.reason = "Blocks come back from the host; the device has not checked them yet.";
  }
  tiers.swapper().wait(tiers.manager().take_write_job());
  for (const int64_t id : output.started) {
    Asked& asked = *std::ranges::find(shown_.asked, id, &Asked::id);
    asked.num_cached = scheduler.request(id).num_cached;
    shown_.found += asked.num_cached;
    shown_.reason =
        fmt::format("{} finds {} of its {}, and computes the others.", asked.name, asked.num_cached,
                    kv::count_of(std::ssize(scheduler.request(id).tokens), "token"));
  }
  for (const lesson08::Chunk& chunk : output.chunks) {
    process_->write(chunk);
    computed_ += chunk.num_tokens;
  }
  scheduler.update(output.chunks);
  for (Asked& asked : shown_.asked) {
    if (!asked.is_there() || !scheduler.wants_token(asked.id)) continue;
    scheduler.add_token(asked.id, asked.next_token());
    if (++asked.generated < asked.max_tokens) continue;
    asked.ended = scheduler.finish(asked.id);
    asked.doing = "has ended";
  }
  tiers.offload(settings_.device, 0);
}

std::string FileTierPage::cut_power(int num_writes, int lost) {
  const FileLayout layout(kShape);
  std::vector<std::string> writes{""};  // what each of them is for, from 1 on
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
  const kv::Defer no_more{[] { kv::File::reaches_disk = nullptr; }};
  process_->tiers.complete();
  end();
  const auto num_all = static_cast<int>(writes.size()) - 1, last = std::min(num_writes, num_all);
  std::string told = fmt::format("The power goes after {} of {} writes.", last, num_all);
  if (last > 0) {
    told = fmt::format("The power goes after write {} of {}, {}.", last, num_all, writes[last]);
  }
  if (lost > 0 && lost <= last) told += fmt::format(" Lost: {}.", writes[lost]);
  return tell(told, viz::shelf_block_id(kFile, last_record));
}

/// The block of this name; 0 if there is none that can be damaged.
int32_t FileTierPage::find(size_t shelf, const std::string& name) const {
  const viz::ShelfBlocks& blocks = now_.shelves[shelf];
  const auto found = std::ranges::find_if(blocks, [&](const viz::ShelfBlock& block) {
    return block.name == name && block.is_copy && block.state != viz::State::kEvicted;
  });
  return found == blocks.end() ? 0 : static_cast<int32_t>(found - blocks.begin());
}

std::string FileTierPage::damage(const viz::Words& words) {
  const size_t shelf = words[0].number;
  const int32_t id = find(shelf, words[1].text);
  constexpr std::byte kBit{4};
  if (shelf == kDevice) *process_->regions.list()[0].block(id) ^= kBit;
  if (shelf == kHost) process_->memory.block(id)[0] ^= kBit;
  if (shelf == kFile) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    const int64_t at = FileLayout(kShape).content_of(id);
    const int byte = file.seekg(at).get();
    file.seekp(at).put(static_cast<char>(byte ^ std::to_integer<int>(kBit)));
  }
  return tell(fmt::format("A bit of {} flips in the {}. Nothing has noticed it yet.", words[1].text,
                          kShelves[shelf]),
              viz::shelf_block_id(words[0].number, id));
}

/// Returns the text of what happened, and of the damage found since the last call, with its place.
std::string FileTierPage::tell(std::string what, std::string points_at) {
  PoolPage::tell(std::move(what), std::move(points_at));
  if (!process_) return shown_.reason;
  const FileMetrics was = std::exchange(told_, process_->tiers.metrics());
  for (const auto& [count, name, where] : kDamage) {
    const int64_t num_lost = told_.*count - was.*count;
    if (num_lost == 0) continue;
    shown_.reason += fmt::format(" A checksum does not fit: {} damaged {}, and not used.",
                                 kv::count_of(num_lost, "block"), where);
  }
  return shown_.reason;
}

std::vector<viz::Counter> FileTierPage::counters() const {
  const FileMetrics metrics = process_ ? process_->tiers.metrics() : FileMetrics{};
  const auto count = [&](viz::State state) {
    return std::ranges::count(now_.shelves[kFile], state, &viz::ShelfBlock::state);
  };
  std::vector<viz::Counter> all{
      {"starts", shown_.num_starts, "starts", "Processes so far that had this file."},
      {"restored", metrics.num_restored, "restored", "Blocks that this start found in the file."},
      {"found", shown_.found, "found", "Tokens that this start did not compute again."},
      {"computed", computed_, "computed", "Tokens that this start has computed."},
      {"valid", count(viz::State::kCached), "valid", "Records that hold a block now."},
      {"damaged", count(viz::State::kEvicted), "damaged", "Records with a wrong checksum."},
      {"unsaved", process_ ? process_->tiers.num_unsaved() : 0}};
  for (const auto& [number, name, where] : kDamage) all.push_back({name, metrics.*number});
  for (const Asked& asked : shown_.asked) {
    all.push_back({asked.name + ".found", asked.num_cached});
    all.push_back({asked.name + ".ended", asked.doing == "has ended"});
  }
  return all;
}

void FileTierPage::check_invariants() const {
  if (process_) process_->check();
}

/// The block that was clicked, with its place, or the first whole one of the file: "file A0". Empty
/// if there is none.
std::string FileTierPage::chosen_block() const {
  if (selected().find(' ') != std::string::npos) return selected();
  for (const viz::ShelfBlock& block : now_.shelves[kFile]) {
    if (find(kFile, block.name) > 0) return "file " + block.name;
  }
  return {};
}

/// Passes, then the file, then a start, after which the first text that has no request comes again.
std::vector<viz::Button> FileTierPage::actions() const {
  const bool works = process_ && !process_->scheduler.idle();
  const bool unsaved = process_ && process_->tiers.num_unsaved() > 0;
  const bool rests = process_ && !works && !unsaved;
  const auto idle = std::ranges::find(shown_.asked, false, &Asked::is_there);
  const std::string next = idle == shown_.asked.end() ? shown_.asked.free_name() : idle->name;
  const std::string block = chosen_block();
  std::vector<viz::Button> row{
      {"pass", "Pass", "pass", "", 'P', works},
      {"submit next", "Submit", fmt::format("submit {} 20 4", next), "", 'S',
       rests && computed_ == 0},
      {"write", "Write", "write", "", 'W', unsaved && !works},
      {"cut 2", "Cut", "cut 2", "", 'C'},
      {"restart", "Restart", "restart", "", 'E', !process_ || (rests && computed_ > 0)}};
  if (!block.empty()) row.push_back({"damage", "Damage", "damage " + block, "", 'D'});
  return row;
}

void FileTierPage::draw(viz::Ui& ui) {
  form(ui, {"submit", "Submit", "submit"});
  buttons(ui, {{"cut 3 2", "Cut the power after 3 writes, one lost", "cut 3 2"}});
  buttons(ui, {{"end", "End the server", "end"}});
  choice(ui, "Blocks: device, host",
         {{"pool 10", "10, 14", "pool 10 14"}, {"pool", "16, 24", "pool 16 24"}});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<FileTierPage>(context);
}

}  // namespace lesson12
