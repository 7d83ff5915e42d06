#pragma once

// A program in Python that answers questions, one after the other: the child process of a server
// that renders chat templates.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

namespace serve {

class PythonChild {
 public:
  /// Starts `script` and sends it `setup`. The interpreter is $KV_PYTHON, or the first of python3
  /// and /usr/bin/python3 whose answer is not that the module jinja2 is missing. No answer may take
  /// longer than `time`.
  PythonChild(std::string script, std::string setup, std::chrono::milliseconds time = kTime);
  ~PythonChild();
  PythonChild(const PythonChild&) = delete;
  PythonChild& operator=(const PythonChild&) = delete;

  /// The answer to the set-up, JSON; empty if there is no interpreter, or if it is too late.
  const std::string& first_answer() const { return first_answer_; }
  bool is_too_late() const { return too_late_; }
  /// The answer to a question, JSON in both directions. A child that died is started again, and
  /// asked once more. The answer is empty after a second death, and if it is too late: that child
  /// is ended, and the next question goes to a new one. May be called from any thread.
  std::string ask(const std::string& question);

  static constexpr std::chrono::seconds kTime{10};

 private:
  bool start(const char* interpreter);
  void end();
  std::string exchange(const std::string& question);
  bool transfer(bool write, char* bytes, size_t size);

  std::string script_, setup_, interpreter_, first_answer_;
  std::chrono::milliseconds time_;
  std::mutex mutex_;  // of what follows
  pid_t pid_ = -1;
  int socket_ = -1;
  std::atomic<bool> too_late_ = false;  // the last answer took too long
  std::chrono::steady_clock::time_point deadline_;
};

}  // namespace serve
