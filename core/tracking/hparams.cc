#include "core/tracking/hparams.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/utf8.h"
#include "core/tracking/event_file.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::tensorboard::Event;
using accel::internal::v1::tensorboard::HParamsData;
using accel::internal::v1::tensorboard::SessionEnd;
using accel::internal::v1::tensorboard::Summary;

// The plugin reads the metadata only; the value itself stays empty.
Event MakeEvent(absl::string_view tag, const HParamsData& data, absl::Time now) {
  Event event;
  event.set_wall_time(WallSeconds(now));
  Summary::Value* value = event.mutable_summary()->add_value();
  value->set_tag(std::string(tag));
  auto* plugin_data = value->mutable_metadata()->mutable_plugin_data();
  plugin_data->set_plugin_name("hparams");
  plugin_data->set_content(data.SerializeAsString());
  return event;
}

// Shortest digits that read back as the same number; YAML 1.1 takes a number for a float only with
// a point in it.
std::string FloatText(double number) {
  if (std::isnan(number)) return ".nan";
  if (std::isinf(number)) return number > 0 ? ".inf" : "-.inf";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  std::string text(digits.data(), end);
  if (absl::StrContains(text, '.')) return text;
  const size_t exponent = std::min(text.find('e'), text.size());
  return text.insert(exponent, ".0");
}

struct ToProto {
  google::protobuf::Value* out;
  void operator()(std::monostate) const {}
  void operator()(bool value) const { out->set_bool_value(value); }
  void operator()(int64_t value) const { out->set_number_value(static_cast<double>(value)); }
  void operator()(double value) const {
    if (std::isfinite(value)) {
      out->set_number_value(value);
    } else {
      out->set_string_value(absl::StrCat(value));
    }
  }
  void operator()(const std::string& value) const { out->set_string_value(RepairUtf8(value)); }
};

struct ToYaml {
  YAML::Emitter& out;
  void operator()(std::monostate) const { out << YAML::Null; }
  void operator()(bool value) const { out << value; }
  void operator()(int64_t value) const { out << value; }
  void operator()(double value) const { out << FloatText(value); }
  void operator()(const std::string& value) const {
    out << YAML::DoubleQuoted << RepairUtf8(value);
  }
};

// Whether YAML 1.1 reads `key` as itself without quotes.
bool IsPlainKey(const std::string& key) {
  constexpr std::array<absl::string_view, 8> kReserved = {"true", "false", "yes", "no",
                                                          "on",   "off",   "y",   "n"};
  if (key.empty() || !absl::ascii_isalpha(key[0]) || absl::EqualsIgnoreCase(key, "null")) {
    return false;
  }
  return std::all_of(key.begin(), key.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '.'; }) &&
         std::none_of(kReserved.begin(), kReserved.end(),
                      [&](absl::string_view word) { return absl::EqualsIgnoreCase(key, word); });
}

}  // namespace

Event SessionStartEvent(const ConfigMap& values, absl::Time now) {
  HParamsData data;
  data.mutable_session_start_info()->set_start_time_secs(WallSeconds(now));
  auto& hparams = *data.mutable_session_start_info()->mutable_hparams();
  for (const auto& [key, value] : values) {
    if (std::holds_alternative<std::monostate>(value)) continue;
    std::visit(ToProto{&hparams[RepairUtf8(key)]}, value);
  }
  return MakeEvent("_hparams_/session_start_info", data, now);
}

Event SessionEndEvent(RunOutcome outcome, absl::Time now) {
  HParamsData data;
  data.mutable_session_end_info()->set_end_time_secs(WallSeconds(now));
  data.mutable_session_end_info()->set_status(
      outcome == RunOutcome::kSucceeded ? SessionEnd::SUCCESS : SessionEnd::FAILURE);
  return MakeEvent("_hparams_/session_end_info", data, now);
}

std::string HParamsYaml(const ConfigMap& values) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  out << YAML::BeginMap;
  for (const auto& [key, value] : values) {
    out << YAML::Key;
    if (!IsPlainKey(key)) out << YAML::DoubleQuoted;
    out << RepairUtf8(key) << YAML::Value;
    std::visit(ToYaml{out}, value);
  }
  out << YAML::EndMap;
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace accel::tracking
