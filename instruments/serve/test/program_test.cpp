// ./course serve as a user starts it.
#include <doctest/doctest.h>

#include "tests/support/shell.h"

using kvtest::check_refused;
using kvtest::shell;

TEST_CASE("serve: help, and options that are wrong") {
  const auto help = shell("$B/serve --help");
  CHECK(help.code == 0);
  for (const char* name : {"--port", "--api-key", "--lesson", "--drain-seconds", "--seed"}) {
    CHECK(help.out.find(name) != std::string::npos);
  }
  check_refused(shell("$B/serve --lesson 7"), "8 to 14");
  check_refused(shell("$B/serve --lesson 13"), "--store");
  check_refused(shell("$B/serve --lesson 12 --store memory"), "--lesson 12");
  check_refused(shell("$B/serve --load always"), "--store");
  check_refused(shell("$B/serve --store here:1"), "redis://");
  check_refused(shell("$B/serve --port 70000"), "--port");
  for (const char* name : {"--api-key", "--file", "--store", "--store-secret"}) {  // "$KEY", unset
    check_refused(shell(std::string("$B/serve ") + name + " ''"), "at least one character");
  }
  check_refused(shell("$B/serve --host nowhere.invalid"), "--host");
  check_refused(shell("$B/serve --file f"), "--lesson 12");
  check_refused(shell("$B/serve --host-blocks 5"), "--host-blocks 5: only lessons 11 to 13");
  check_refused(shell("$B/serve --lesson 14 --host-blocks 5"), "add --lesson 11");
  check_refused(shell("$B/serve --block-size 256 --num-blocks 16777216"),
                "--num-blocks 16777216: found ");
  check_refused(shell("$B/serve --num-blocks 4 --max-model-len 2000"), "--max-model-len 2000");
  check_refused(shell("$B/serve --no-chunked-prefill --num-blocks 64 --max-model-len 600"),
                "at most 512");
}

TEST_CASE("serve: a port in use, a signal that drains, and a second server after it") {
  // The first server writes its address; the second finds the port in use.
  const auto out = shell(
      "$B/serve --port 0 >$T/out & pid=$!; "
      "until grep -q http $T/out; do sleep 0.05; done; "
      "port=$(sed -n 's,^http://127.0.0.1:\\([0-9]*\\) .*,\\1,p' $T/out); "
      "$B/serve --port $port; echo second $?; "
      "kill -TERM $pid; wait $pid; echo first $?");
  CAPTURE(out.err);
  CHECK(out.out == "second 2\nfirst 0\n");
  CHECK(out.err.find("is in use") != std::string::npos);
  CHECK(out.err.find("--port") != std::string::npos);
}

TEST_CASE("serve: a store that is not there is said once, and the server starts") {
  const auto out = shell(
      "$B/serve --port 0 --store redis://:word@127.0.0.1:1 >$T/out & pid=$!; "
      "until grep -q http: $T/out; do sleep 0.05; done; kill -TERM $pid; wait $pid; echo $?; "
      "head -1 $T/out");
  CAPTURE(out.out);
  CHECK(out.out.starts_with("0\ntiny on "));
  CHECK(out.out.find("lesson 13") != std::string::npos);
  CAPTURE(out.err);
  CHECK(out.err.find("the store redis://127.0.0.1:1 does not answer") != std::string::npos);
  CHECK(out.err.find("answer") == out.err.rfind("answer"));
}
