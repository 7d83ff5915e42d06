// Addresses as people write them.
#include "common/url.h"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/files/support.h"

using namespace kv;
using kv::testing::user_error_of;

TEST_CASE("url: parts, decoded where they are meant to be") {
  const auto all = parse_url("REDIS://m%65:p%40ss%2Fw%3Ard@Here.Example:7000/0");
  REQUIRE(all);
  CHECK(all->scheme == "redis");
  CHECK(all->user == "me");
  CHECK(all->password == "p@ss/w:rd");
  CHECK(all->host == "here.example");
  CHECK(all->port == 7000);
  CHECK(all->path == "/0");
  CHECK(parse_url("redis://:a:b@c")->password == "a:b");
  CHECK(parse_url("redis://:a@b@c")->password == "a@b");
  CHECK(parse_url("http://h")->port == std::nullopt);
  CHECK(parse_url("http://h:")->port == std::nullopt);
  CHECK(parse_url("http://h:0080/a%20b/")->port == 80);
  CHECK(parse_url("http://h/a%20b/")->path == "/a%20b/");
}

TEST_CASE("url: an IPv6 address is in brackets, and is written so again") {
  CHECK(parse_url("http://[::1]:8000")->host == "::1");
  CHECK(parse_url("http://[::1]:8000")->port == 8000);
  for (const char* zone : {"http://[FE80::1%25eth0]", "http://[fe80::1%eth0]:80"}) {
    CHECK(parse_url(zone)->host == "fe80::1%eth0");
  }
  CHECK(parse_url("tcp://[::ffff:10.0.0.1]:5557/")->host == "::ffff:10.0.0.1");
  CHECK(host_and_port("::1", 80) == "[::1]:80");
  CHECK(host_and_port("[::1]", 80) == "[::1]:80");
  CHECK(host_and_port("127.0.0.1", 80) == "127.0.0.1:80");
  CHECK(without_brackets("[::1]") == "::1");
  CHECK(without_brackets("::1") == "::1");
}

TEST_CASE("url: what is no address is none") {
  std::istringstream words(
      "here here:80 ://h 1ttp://h http:// http://:80 http://u@ http:/h http://h:65536 http://h:-1 "
      "http://h:+1 http://h:8o http://h:80:90 http://::1 http://::1:80 http://[::1 http://[::1]80 "
      "http://[x]:80 http://[] http://h\\x http://u:%4@h http://u:%zz@h http://u:%@h http://h?x "
      "http://h/a#b http://u:p/w@h");
  std::vector<std::string> all{"", "http://h h", "http://h\n"};
  for (std::string word; words >> word;) all.push_back(word);
  for (const std::string& bad : all) {
    CAPTURE(bad);
    CHECK(!parse_url(bad));
  }
}

TEST_CASE("url: a server for a client of HTTP") {
  const HttpServerUrl server = parse_http_server("HTTP://[::1]:8000/base/v1/", "--url");
  CHECK(server.host == "::1");
  CHECK(server.port == 8000);
  CHECK(server.path == "/base");
  CHECK(server.text == "http://[::1]:8000/base");
  CHECK(parse_http_server("http://localhost", "--url").host == "127.0.0.1");
  CHECK(parse_http_server("http://localhost/", "--url").text == "http://localhost:80");
  const auto said = [](const std::string& text) {
    return user_error_of([&] { parse_http_server(text, "--url"); });
  };
  CHECK(said("https://h").find("--url https://h: this client speaks no TLS") == 0);
  CHECK(said("h:80").find("--url h:80: wanted http://HOST:PORT") == 0);
  CHECK(said("http://h:0").find("wanted http://HOST:PORT") != std::string::npos);
  CHECK(said("http://me:secret@h").find("--url http://h: found a user or a password") == 0);
  CHECK(without_password("redis://me:p@ss@here:1/0") == "redis://here:1/0");
  CHECK(without_password("me:p@here") == "here");
  CHECK(without_password("http://h") == "http://h");
}
