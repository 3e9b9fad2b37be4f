#ifndef ACCEL_CORE_TRACKING_OMISSIONS_H_
#define ACCEL_CORE_TRACKING_OMISSIONS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace accel::tracking {

// What a tracker could not express, counted: each kind of it is told once for each key when it
// first happens, and with its number at the end. Of at most 1000 pairs; further ones are counted
// together.
class Omissions {
 public:
  // `what` completes a sentence that starts with the key: `has a value that is no number, left
  // out`.
  void Note(absl::string_view key, absl::string_view what);

  // Something to be told that belongs to no key.
  void Say(std::string line) { lines_.push_back(std::move(line)); }

  // Tells how often each pair was noted, of those that were noted more than once.
  void SayTotals();

  // The lines since the last call.
  std::vector<std::string> Take() { return std::exchange(lines_, {}); }

 private:
  std::map<std::pair<std::string, std::string>, int64_t> counts_;
  std::vector<std::string> lines_;
};

}  // namespace accel::tracking

#endif  // ACCEL_CORE_TRACKING_OMISSIONS_H_
