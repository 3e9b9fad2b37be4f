#include "client/cli/output.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/table.h"
#include "core/config/text_format.h"
#include "nlohmann/json.hpp"

namespace accel::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string WithNewline(std::string text) {
  if (text.empty() || text.back() != '\n') text += '\n';
  return text;
}

Json ToJson(const google::protobuf::Message& message) {
  return Json::parse(config::FormatJson(message));
}

void AddFields(const std::string& path, const Json& value, Table* table) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, member] : value.items()) {
      AddFields(path.empty() ? key : absl::StrCat(path, ".", key), member, table);
    }
  } else {
    table->Add({path, value.is_string() ? value.get<std::string>() : value.dump()});
  }
}

}  // namespace

void PrintMessage(std::ostream& out, OutputFormat format,
                  const google::protobuf::Message& message) {
  out << WithNewline(format == OutputFormat::kYaml ? config::FormatYaml(message)
                                                   : config::FormatJson(message));
}

void PrintList(std::ostream& out, OutputFormat format, const std::string& field,
               const std::vector<const google::protobuf::Message*>& messages) {
  if (format == OutputFormat::kJson) {
    Json list = Json::array();
    for (const google::protobuf::Message* message : messages) list.push_back(ToJson(*message));
    Json answer;
    answer[field] = std::move(list);
    out << answer.dump(2) << '\n';
    return;
  }
  out << field << (messages.empty() ? ": []\n" : ":\n");
  for (const google::protobuf::Message* message : messages) {
    const std::string yaml = config::FormatYaml(*message);
    absl::string_view prefix = "  - ";
    for (absl::string_view line : absl::StrSplit(absl::StripSuffix(yaml, "\n"), '\n')) {
      out << (line.empty() ? "" : prefix) << line << '\n';
      prefix = "    ";
    }
  }
}

void PrintRow(std::ostream& out, OutputFormat format, const google::protobuf::Message& message) {
  if (format == OutputFormat::kYaml) {
    out << "---\n" << WithNewline(config::FormatYaml(message));
  } else {
    out << ToJson(message).dump() << '\n';
  }
  out.flush();
}

void PrintFields(std::ostream& out, const google::protobuf::Message& message, bool color) {
  Table table;
  AddFields("", ToJson(message), &table);
  table.Print(out, color);
}

}  // namespace accel::cli
