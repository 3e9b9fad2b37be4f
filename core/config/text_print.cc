#include <yaml-cpp/yaml.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "core/config/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace accel::config {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) {
    return ordered_json::object();  // only for an Any of an unknown type, which this API has not
  }
  return ordered_json::parse(text);
}

// Other readers of YAML take these for booleans.
bool ReadsAsBool(const std::string& text) {
  bool value = false;
  return YAML::convert<bool>::decode(YAML::Node(text), value);
}

void Emit(const ordered_json& value, YAML::Emitter* out) {
  if (value.is_object()) {
    if (value.empty()) *out << YAML::Flow;
    *out << YAML::BeginMap;
    for (const auto& [key, child] : value.items()) {
      *out << YAML::Key;
      Emit(key, out);
      *out << YAML::Value;
      Emit(child, out);
    }
    *out << YAML::EndMap;
  } else if (value.is_array()) {
    const bool flow = value.empty() || !value.front().is_structured();
    *out << (flow ? YAML::Flow : YAML::Block) << YAML::BeginSeq;
    for (const ordered_json& item : value) Emit(item, out);
    *out << YAML::EndSeq;
  } else if (value.is_string()) {
    const std::string text = value.get<std::string>();
    if (ReadsAsBool(text)) *out << YAML::DoubleQuoted;
    *out << text;
  } else {
    *out << value.dump();
  }
}

}  // namespace

std::string FormatJson(const google::protobuf::Message& message) { return ToJson(message).dump(2); }

std::string FormatYaml(const google::protobuf::Message& message) {
  YAML::Emitter out;
  Emit(ToJson(message), &out);
  return absl::StrCat(out.c_str(), "\n");
}

}  // namespace accel::config
