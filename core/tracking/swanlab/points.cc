#include "core/tracking/swanlab/points.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tracking/json_values.h"

namespace accel::tracking::swanlab {
namespace {

using accel::v1::MetricValue;
using nlohmann::json;

constexpr size_t kMaxKeyCharacters = 512;
constexpr int64_t kMaxStep = int64_t{1} << 48;

// Well-formed `text` up to `count` characters.
absl::string_view CutCharacters(absl::string_view text, size_t count) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool starts = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (starts && ++characters > count) return text.substr(0, i);
  }
  return text;
}

bool IsEdge(char c) { return c == '.' || c == '/'; }

// Nothing for a key that SwanLab does not take.
std::optional<std::string> CleanKey(absl::string_view key, Omissions* omissions) {
  const std::string repaired = RepairUtf8(key);
  absl::string_view clean = repaired;
  while (!clean.empty() && IsEdge(clean.front())) clean.remove_prefix(1);
  while (!clean.empty() && IsEdge(clean.back())) clean.remove_suffix(1);
  const bool has_control = std::any_of(clean.begin(), clean.end(), absl::ascii_iscntrl);
  if (clean.empty() || has_control || absl::StartsWith(clean, "__swanlab__.")) {
    omissions->Note(absl::StrCat("\"", absl::CHexEscape(key), "\""),
                    "is no name that swanlab takes, left out");
    return std::nullopt;
  }
  clean = CutCharacters(clean, kMaxKeyCharacters);
  if (clean != key) omissions->Note(key, absl::StrCat("is stored as ", clean));
  return std::string(clean);
}

std::optional<double> NumberOf(const MetricValue& value) {
  if (value.value_case() == MetricValue::kNumber) return value.number();
  double number = 0;
  if (value.value_case() == MetricValue::kText && absl::SimpleAtod(value.text(), &number)) {
    return number;
  }
  return std::nullopt;
}

}  // namespace

void Points::Held(const std::string& key, int64_t step) {
  int64_t& last = last_steps_.try_emplace(key, -1).first->second;
  last = std::max(last, step);
  highest_step_ = std::max(highest_step_, step);
}

std::vector<Point> Points::Of(const std::vector<LogCall>& calls) const {
  std::vector<Point> points;
  std::map<std::string, int64_t> last_steps;
  int64_t highest_step = highest_step_;
  const auto add = [&](absl::string_view name, const LogCall& call, int64_t step, double value) {
    const std::optional<std::string> key = CleanKey(name, omissions_);
    if (!key.has_value()) return;
    const auto held = last_steps_.find(*key);
    int64_t& last =
        last_steps.try_emplace(*key, held == last_steps_.end() ? -1 : held->second).first->second;
    if (step < 0 || step > kMaxStep) {
      omissions_->Note(*key, "has a step that swanlab does not take, left out");
    } else if (step > last) {
      points.push_back({*key, step, call.time, value});
      last = step;
      highest_step = std::max(highest_step, step);
    }
  };
  for (const LogCall& call : calls) {
    const int64_t step = call.step.value_or(highest_step + 1);
    for (const auto& [key, value] : call.values) {
      if (value.value_case() == MetricValue::kMap) {
        // protobuf's own order differs from run to run.
        const std::map<std::string, double> sorted(value.map().values().begin(),
                                                   value.map().values().end());
        for (const auto& [name, number] : sorted) {
          add(absl::StrCat(key, "/", name), call, step, number);
        }
      } else if (const std::optional<double> number = NumberOf(value); number.has_value()) {
        add(key, call, step, *number);
      } else {
        omissions_->Note(key, "has a value that is no number, left out");
      }
    }
  }
  return points;
}

void Points::Hold(const std::vector<Point>& points) {
  for (const Point& point : points) Held(point.key, point.step);
}

std::string ConfigText(const ConfigMap& values) {
  json config = json::object();
  const auto add = [&](const std::string& key, json value) {
    // The SDK's way of writing nothing.
    if (value.is_null()) value = json::object();
    config[RepairUtf8(key)] = {{"value", std::move(value)}, {"sort", config.size()}, {"desc", ""}};
  };
  for (const auto& [key, value] : values) add(key, ConfigJson(value));
  if (values.count("FRAMEWORK") == 0) add("FRAMEWORK", "accel");
  return config.dump();
}

}  // namespace accel::tracking::swanlab
