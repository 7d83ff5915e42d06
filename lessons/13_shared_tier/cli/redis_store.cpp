#include "redis_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <functional>
#include <vector>

#include "common/error.h"
#include "common/url.h"

#if __has_include(<hiredis/hiredis.h>)
#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/time.h>
#define KV_HIREDIS 1
#endif

namespace lesson13 {

RedisAddress parse_redis_address(const std::string& text) {
  RedisAddress address;
  if (text.starts_with("unix:/")) {
    address.host = text.substr(5);
    return address;
  }
  const std::optional<kv::Url> url = kv::parse_url(text);
  // Database 0 is the one that a connection has; a cluster has no other.
  const bool first_database =
      url && (url->path.empty() || url->path == "/" || url->path == "/0" || url->path == "/0/");
  const bool named = url && (url->user.empty() || !url->password.empty());
  if (!named || url->scheme != "redis" || !first_database || url->port == 0) {
    kv::user_error(
        "store {}: wanted redis://host:port or unix:/path; with a password "
        "redis://user:password@host:port, in which %40 stands for @, %2F for / and %25 for %; of "
        "the databases /0 alone",
        kv::without_password(text));
  }
  return {.host = url->host,
          .port = url->port.value_or(6379),
          .password = url->password,
          .user = url->user};
}

int slot_of_key(const std::string& key) {
  unsigned crc = 0;
  for (const char c : key) {
    crc ^= static_cast<unsigned>(static_cast<unsigned char>(c)) << 8;
    for (int bit = 0; bit < 8; ++bit) crc = (crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021u : 0u);
    crc &= 0xFFFF;
  }
  return static_cast<int>(crc % 16384);
}

#ifdef KV_HIREDIS
namespace {

using Clock = std::chrono::steady_clock;

struct FreeReply {
  void operator()(void* reply) const { freeReplyObject(reply); }
};
using Reply = std::unique_ptr<redisReply, FreeReply>;

/// One Redis process, and the connection to it.
class Node {
 public:
  /// Sets `slots_are_known` to false when it fails: another node may take over its slots.
  Node(RedisAddress address, const RedisOptions& options, bool& slots_are_known)
      : address_(std::move(address)),
        options_(options),
        slots_are_known_(slots_are_known),
        pause_(options.first_pause) {}

  const RedisAddress& address() const { return address_; }
  /// The connection, made if there is none. Null while the node is given a rest.
  redisContext* context() {
    if (context_ || Clock::now() < next_try_) return context_.get();
    const auto micro = std::chrono::microseconds(options_.timeout).count();
    const timeval timeout{static_cast<time_t>(micro / 1'000'000),
                          static_cast<suseconds_t>(micro % 1'000'000)};
    context_.reset(address_.port == 0
                       ? redisConnectUnixWithTimeout(address_.host.c_str(), timeout)
                       : redisConnectWithTimeout(address_.host.c_str(), address_.port, timeout));
    const bool good = context_ && context_->err == 0 &&
                      redisSetTimeout(context_.get(), timeout) == REDIS_OK && log_in();
    if (!good) fail();
    return context_.get();
  }
  /// The next answer; null, and the connection is closed, if there is none.
  Reply answer() {
    void* reply = nullptr;
    if (redisGetReply(context_.get(), &reply) != REDIS_OK) {
      fail();
    } else {
      pause_ = options_.first_pause;
    }
    return Reply(static_cast<redisReply*>(reply));
  }
  /// Sends what has been appended, and does not wait for answers.
  void send() {
    int done = 0;
    while (context_ && done == 0) {
      if (redisBufferWrite(context_.get(), &done) != REDIS_OK) fail();
    }
  }
  /// Sends bytes past the buffer of hiredis, which is empty.
  void send_now(std::string_view bytes) {
    while (context_ && !bytes.empty()) {
      const ssize_t sent = ::send(context_->fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      sent <= 0 ? fail() : bytes.remove_prefix(sent);
    }
  }
  bool is_connected() const { return context_ != nullptr; }

 private:
  struct Close {
    void operator()(redisContext* context) const { redisFree(context); }
  };
  bool log_in() {
    const std::string &user = address_.user, &password = address_.password;
    if (password.empty()) return true;
    void* const answer =
        user.empty() ? redisCommand(context_.get(), "AUTH %b", password.data(), password.size())
                     : redisCommand(context_.get(), "AUTH %b %b", user.data(), user.size(),
                                    password.data(), password.size());
    const Reply reply(static_cast<redisReply*>(answer));
    return reply && reply->type == REDIS_REPLY_STATUS;
  }
  /// After an error a connection is of no use.
  void fail() {
    context_.reset();
    slots_are_known_ = false;
    next_try_ = Clock::now() + pause_;
    pause_ = std::min(2 * pause_, options_.longest_pause);
  }

  RedisAddress address_;
  RedisOptions options_;
  bool& slots_are_known_;
  std::unique_ptr<redisContext, Close> context_;
  std::chrono::milliseconds pause_;
  Clock::time_point next_try_{};
};

class RedisStore final : public BlockStore {
 public:
  RedisStore(const RedisAddress& address, const RedisOptions& options) : options_(options) {
    std::signal(SIGPIPE, SIG_IGN);
    index_of(address);
  }

  /// EXISTS of many keys would only count them, and the store makes holes: one command for each.
  std::optional<size_t> find(std::span<const BlockName> names) override {
    std::vector<bool> is_there(names.size());
    bool answered = false;
    trip("EXISTS", names, [&](size_t i, const redisReply& reply) {
      answered = true;
      is_there[i] = reply.type == REDIS_REPLY_INTEGER && reply.integer == 1;
    });
    if (!answered) return {};
    return std::ranges::find(is_there, false) - is_there.begin();
  }
  void get(std::span<const BlockName> names, const OnValue& on_value) override {
    size_t next = 0;  // those before it have come
    trip("GET", names, [&](size_t i, const redisReply& reply) {
      if (i != next || reply.type != REDIS_REPLY_STRING) return;
      on_value(i, {reply.str, static_cast<size_t>(reply.len)});
      ++next;
    });
  }
  /// By hand: hiredis copies a value into two buffers of its own before it sends the first byte.
  bool put(const BlockName& name, std::string_view value) override {
    if (!slots_are_known_) learn_slots();
    const std::string key = key_of(name);
    Node& node = node_of(key);
    if (node.context() == nullptr) return false;
    node.send_now(
        fmt::format("*3\r\n$3\r\nSET\r\n${}\r\n{}\r\n${}\r\n", key.size(), key, value.size()));
    node.send_now(value);
    node.send_now("\r\n");
    const Reply reply = node.is_connected() ? node.answer() : nullptr;
    return reply && !is_error(*reply) && reply->type == REDIS_REPLY_STATUS;
  }

 private:
  using OnReply = std::function<void(size_t index, const redisReply&)>;

  /// Sends `command` with each name to the node that has it, to all nodes before the first answer
  /// is read. A name whose node fails has no answer. Answers come in the order of the names.
  void trip(const char* command, std::span<const BlockName> names, const OnReply& on_reply) {
    if (!slots_are_known_) learn_slots();
    std::vector<Node*> asked(names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string key = key_of(names[i]);
      Node& node = node_of(key);
      redisContext* const context = node.context();
      if (context == nullptr) continue;
      redisAppendCommand(context, "%s %b", command, key.data(), key.size());
      asked[i] = &node;
    }
    for (Node& node : nodes_) node.send();
    for (size_t i = 0; i < names.size(); ++i) {
      if (asked[i] == nullptr || !asked[i]->is_connected()) continue;
      const Reply reply = asked[i]->answer();
      if (reply && !is_error(*reply)) on_reply(i, *reply);
    }
  }

  Node& node_of(const std::string& key) { return nodes_[node_of_slot_[slot_of_key(key)]]; }
  /// After some errors the nodes are asked again for their slots.
  bool is_error(const redisReply& reply) {
    if (reply.type != REDIS_REPLY_ERROR) return false;
    const std::string_view error(reply.str, reply.len);
    if (error.starts_with("MOVED") || error.starts_with("CLUSTERDOWN")) slots_are_known_ = false;
    return true;
  }

  /// The node at this address, which is made if there is none.
  size_t index_of(const RedisAddress& address) {
    const auto found = std::ranges::find(nodes_, address, &Node::address);
    const size_t index = found - nodes_.begin();
    if (found == nodes_.end()) nodes_.emplace_back(address, options_, slots_are_known_);
    return index;
  }
  /// Asks the nodes in turn, until one answers, which node has which slots. Without a cluster the
  /// only node has all of them.
  void learn_slots() {
    Reply reply;
    auto asked = nodes_.begin();
    for (; asked != nodes_.end(); ++asked) {
      if (asked->context() == nullptr) continue;
      redisAppendCommand(asked->context(), "CLUSTER SLOTS");
      if ((reply = asked->answer())) break;
    }
    if (!reply) return;
    slots_are_known_ = true;
    node_of_slot_.fill(asked - nodes_.begin());
    if (reply->type != REDIS_REPLY_ARRAY) return;
    const RedisAddress address_of_asked = asked->address();
    for (size_t i = 0; i < reply->elements; ++i) {  // begin, end, and the node: host and port
      const redisReply& range = *reply->element[i];
      if (range.elements < 3 || range.element[2]->elements < 2) continue;
      const redisReply& host = *range.element[2]->element[0];
      RedisAddress address = address_of_asked;  // a node that is alone does not know its own host
      if (host.len > 0) {
        address.host = host.str;
        address.port = static_cast<int>(range.element[2]->element[1]->integer);
      }
      const size_t index = index_of(address);
      for (auto slot = range.element[0]->integer; slot <= range.element[1]->integer; ++slot) {
        node_of_slot_.at(slot) = index;
      }
    }
  }

  RedisOptions options_;
  std::deque<Node> nodes_;                    // the first is the one that is named
  std::array<size_t, 16384> node_of_slot_{};  // index of nodes_
  bool slots_are_known_ = false;
};

}  // namespace

std::unique_ptr<BlockStore> make_redis_store(const RedisAddress& address,
                                             const RedisOptions& options) {
  return std::make_unique<RedisStore>(address, options);
}
#else
std::unique_ptr<BlockStore> make_redis_store(const RedisAddress&, const RedisOptions&) {
  kv::user_error("this build has no hiredis, and so no store but its own");
}
#endif

}  // namespace lesson13
