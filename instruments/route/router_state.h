#pragma once

// The router's state of a server and of a request. For the router's own files.

#include <optional>
#include <set>

#include "instruments/route/router.h"

namespace route {

struct Router::Server {
  load::Url url;
  bool prefill = false;  // it computes prompts for the others
  Upstream state = {};
  bool up = false;                                                    // it is sent requests
  bool well = true;                                                   // at its last GET /health
  std::optional<Client::Id> events = {}, snapshot = {}, health = {};  // in flight
  int64_t num_requests = 0, num_failures = 0;
  bool streams = false;                 // the call for events has a head
  int ticks = 0;                        // since then
  std::string said = {};                // why it is down
  std::set<Client::Id> not_begun = {};  // calls of which no byte has come
};

/// A request that is being answered.
struct Router::Job {
  Shared exchange;
  PromptReader::Read read = {};
  bool prefill = false;     // a prefill server comes first
  std::vector<bool> tried;  // servers that could not take it
  size_t server = 0;
  int64_t number = -1;  // at that server
  Client::Id call = 0;
  int status = 0;
  std::string type = {}, body = {};  // of an answer that is no stream
  int num_lost = 0;                  // servers that broke off before the first byte
  bool begun = false;                // a byte of the answer has come
  bool passes = false;               // its bytes are passed on as they come
};

}  // namespace route
