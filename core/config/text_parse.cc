#include <yaml-cpp/yaml.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/errors.h"
#include "core/base/status_macros.h"
#include "core/config/field_rules.h"
#include "core/config/scalar_field.h"
#include "core/config/text_format.h"
#include "core/config/yaml_guard.h"
#include "google/protobuf/duration.pb.h"

namespace accel::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// A file of nothing but unknown fields need not list them all.
constexpr int kMaxMistakes = 50;

// "?" and "!" are yaml-cpp's names for a plain and a quoted scalar without a tag.
bool IsTagged(const YAML::Node& node) {
  return !node.Tag().empty() && node.Tag() != "?" && node.Tag() != "!";
}

std::string FieldNames(const Descriptor& descriptor) {
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.field_count(); ++i) names.push_back(descriptor.field(i)->name());
  return names.empty() ? "none" : absl::StrJoin(names, ", ");
}

// Builds a message from a tree; collects mistakes with the fields' paths.
class Builder {
 public:
  explicit Builder(FieldViolations* violations) : violations_(violations) {}

  void Build(const YAML::Node& node, const std::string& path, Message* message) {
    if (!node.IsMap() || IsTagged(node)) {
      return Refuse(node, path, NotAllowed(Describe(node), "a map of fields"));
    }
    const Descriptor& descriptor = *message->GetDescriptor();
    std::set<const FieldDescriptor*> seen;
    for (const auto& entry : node) {
      const std::string name = entry.first.IsScalar() ? entry.first.Scalar() : "?";
      const std::string field_path = FieldPath(path, name);
      const FieldDescriptor* field = descriptor.FindFieldByName(name);
      if (field == nullptr) {
        Refuse(entry.first, field_path,
               absl::StrCat("unknown field; allowed: ", FieldNames(descriptor)));
      } else if (!seen.insert(field).second) {
        Refuse(entry.first, field_path, "field is given twice");
      } else {
        BuildField(entry.second, *field, field_path, message);
      }
    }
  }

 private:
  void Refuse(const YAML::Node& node, const std::string& path, absl::string_view reason) {
    if (++mistakes_ <= kMaxMistakes) {
      violations_->Add(path, absl::StrCat(reason, " (", At(node.Mark()), ")"));
    }
  }

  static std::string Describe(const YAML::Node& node) {
    if (IsTagged(node)) return absl::StrCat("tag ", Quoted(node.Tag()));
    if (node.IsScalar()) return Quoted(node.Scalar());
    if (node.IsMap()) return "a map";
    return node.IsSequence() ? "a list" : "null";
  }

  void BuildField(const YAML::Node& node, const FieldDescriptor& field, const std::string& path,
                  Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (node.IsNull() && !IsTagged(node)) {
      // `mse:` selects a member of a oneof; any other field is absent.
      if (oneof == nullptr || field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return;
    }
    if (oneof != nullptr && reflection.HasOneof(*message, oneof)) {
      const FieldDescriptor* other = reflection.GetOneofFieldDescriptor(*message, oneof);
      return Refuse(node, path, absl::StrCat("not allowed beside ", other->name()));
    }
    if (field.is_map()) return BuildMap(node, field, path, message);
    if (field.is_repeated()) return BuildList(node, field, path, message);
    BuildValue(node, field, path, message);
  }

  // Every map of this API is of texts.
  void BuildMap(const YAML::Node& node, const FieldDescriptor& field, const std::string& path,
                Message* message) {
    if (!node.IsMap() || IsTagged(node)) {
      return Refuse(node, path, NotAllowed(Describe(node), "a map of texts"));
    }
    const Descriptor& type = *field.message_type();
    std::set<std::string> seen;
    for (const auto& item : node) {
      const YAML::Node& key = item.first;
      const YAML::Node& value = item.second;
      const std::string entry_path =
          absl::StrCat(path, "[", key.IsScalar() ? Quoted(key.Scalar()) : "?", "]");
      if (!key.IsScalar() || !value.IsScalar() || IsTagged(key) || IsTagged(value)) {
        Refuse(value, entry_path, NotAllowed(Describe(value), "a text"));
      } else if (!seen.insert(key.Scalar()).second) {
        Refuse(key, entry_path, "key is given twice");
      } else {
        Message* entry = message->GetReflection()->AddMessage(message, &field);
        entry->GetReflection()->SetString(entry, type.map_key(), key.Scalar());
        entry->GetReflection()->SetString(entry, type.map_value(), value.Scalar());
      }
    }
  }

  void BuildList(const YAML::Node& node, const FieldDescriptor& field, const std::string& path,
                 Message* message) {
    if (!node.IsSequence() || IsTagged(node)) {
      return Refuse(node, path, NotAllowed(Describe(node), "a list"));
    }
    for (size_t i = 0; i < node.size(); ++i) {
      BuildValue(node[i], field, absl::StrCat(path, "[", i, "]"), message);
    }
  }

  // Sets the field, or adds to it where it is repeated.
  void BuildValue(const YAML::Node& node, const FieldDescriptor& field, const std::string& path,
                  Message* message) {
    const Reflection& reflection = *message->GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message* child = field.is_repeated() ? reflection.AddMessage(message, &field)
                                           : reflection.MutableMessage(message, &field);
      if (auto* duration =
              google::protobuf::DynamicCastToGenerated<google::protobuf::Duration>(child)) {
        return BuildDuration(node, path, duration);
      }
      if (!node.IsNull()) Build(node, path, child);
      return;
    }
    if (!node.IsScalar() || IsTagged(node)) {
      return Refuse(node, path, NotAllowed(Describe(node), AllowedScalars(field)));
    }
    if (!SetScalar(node, field, message)) {
      Refuse(node, path, NotAllowed(Describe(node), AllowedScalars(field)));
    }
  }

  void BuildDuration(const YAML::Node& node, const std::string& path,
                     google::protobuf::Duration* duration) {
    if (!node.IsScalar() || IsTagged(node) || !ParseDuration(node.Scalar(), duration)) {
      Refuse(node, path,
             NotAllowed(Describe(node), "a number of seconds or a text such as \"600s\""));
    }
  }

  FieldViolations* const violations_;
  int mistakes_ = 0;
};

}  // namespace

absl::Status ParseMessage(absl::string_view text, Message* message) {
  message->Clear();
  ACCEL_ASSIGN_OR_RETURN(const YAML::Node document, LoadUntrustedYaml(text));
  FieldViolations violations;
  try {
    if (!document.IsNull()) Builder(&violations).Build(document, "", message);
  } catch (const YAML::Exception& exception) {
    return absl::InvalidArgumentError(absl::StrCat(At(exception.mark), ": ", exception.msg));
  }
  absl::Status status = violations.ToStatus();
  if (!status.ok()) message->Clear();
  return status;
}

}  // namespace accel::config
