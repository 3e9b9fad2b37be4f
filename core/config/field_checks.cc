#include <cmath>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/config/field_rules.h"

namespace accel::config {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;
using Kind = FieldRule::Kind;

constexpr absl::string_view kPackage = "accel.v1.";
constexpr size_t kMaxQuoted = 64;

// The rules of a field or oneof by its full name.
const std::vector<const FieldRule*>& RulesOf(const std::string& full_name) {
  static const auto* const by_name = [] {
    auto* map = new absl::flat_hash_map<std::string, std::vector<const FieldRule*>>;
    for (const FieldRule& rule : FieldRules()) {
      (*map)[absl::StrCat(kPackage, rule.field)].push_back(&rule);
    }
    return map;
  }();
  static const auto* const none = new std::vector<const FieldRule*>;
  const auto it = by_name->find(full_name);
  return it == by_name->end() ? *none : it->second;
}

std::string Members(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) names.push_back(oneof.field(i)->name());
  return absl::StrJoin(names, ", ");
}

// Limits are whole numbers of up to 32 bits or short fractions, which six digits would cut.
std::string Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return absl::StrCat(static_cast<int64_t>(value));
  }
  return absl::StrCat(value);
}

std::string DescribeRange(const FieldRule& rule) {
  const std::string min = absl::StrCat(rule.min_excluded ? "above " : "", Number(rule.min));
  if (std::isinf(rule.max)) return rule.min_excluded ? min : absl::StrCat("at least ", min);
  return absl::StrCat(min, rule.max_excluded ? " and below " : " to ", Number(rule.max));
}

bool InRange(const FieldRule& rule, double value) {
  return (rule.min_excluded ? value > rule.min : value >= rule.min) &&
         (rule.max_excluded ? value < rule.max : value <= rule.max);
}

bool IsOneOf(const FieldRule& rule, absl::string_view value) {
  for (absl::string_view name : rule.names) {
    if (rule.any_case ? absl::EqualsIgnoreCase(name, value) : name == value) return true;
  }
  return false;
}

// Visits the values of a message; the paths it reports start at `path`.
class Checker {
 public:
  Checker(const Message& message, absl::string_view path, FieldViolations* violations)
      : message_(message),
        reflection_(*message.GetReflection()),
        path_(path),
        violations_(violations) {}

  void Check() {
    const Descriptor& descriptor = *message_.GetDescriptor();
    for (int i = 0; i < descriptor.real_oneof_decl_count(); ++i) {
      CheckOneof(*descriptor.oneof_decl(i));
    }
    for (int i = 0; i < descriptor.field_count(); ++i) CheckField(*descriptor.field(i));
  }

 private:
  void CheckOneof(const OneofDescriptor& oneof) {
    for (const FieldRule* rule : RulesOf(oneof.full_name())) {
      if (rule->kind == Kind::kRequired && !reflection_.HasOneof(message_, &oneof)) {
        violations_->Add(path_, absl::StrCat("required: exactly one of ", Members(oneof)));
      }
    }
  }

  void CheckField(const FieldDescriptor& field) {
    const std::string path = FieldPath(path_, field.name());
    const std::vector<const FieldRule*>& rules = RulesOf(field.full_name());
    const bool present = field.is_repeated() ? reflection_.FieldSize(message_, &field) > 0
                                             : reflection_.HasField(message_, &field);
    if (!present) {
      for (const FieldRule* rule : rules) {
        if (rule->kind == Kind::kRequired) violations_->Add(path, "required");
      }
    } else if (field.is_map()) {
      CheckCount(field, rules, path);
      CheckMap(field, path);
    } else if (field.is_repeated()) {
      if (!CheckCount(field, rules, path)) return;
      for (int i = 0; i < reflection_.FieldSize(message_, &field); ++i) {
        CheckValue(field, i, rules, absl::StrCat(path, "[", i, "]"));
      }
    } else {
      CheckValue(field, -1, rules, path);
    }
  }

  bool CheckCount(const FieldDescriptor& field, const std::vector<const FieldRule*>& rules,
                  const std::string& path) {
    double min = 0;
    double max = kDefaultMaxCount;
    for (const FieldRule* rule : rules) {
      if (rule->kind != Kind::kCount) continue;
      min = rule->min;
      max = rule->max;
    }
    const int count = reflection_.FieldSize(message_, &field);
    if (count >= min && count <= max) return true;
    const std::string allowed =
        min == max ? Number(min) : absl::StrCat(Number(min), " to ", Number(max));
    violations_->Add(path, NotAllowed(absl::StrCat(count, " values"), allowed));
    return false;
  }

  // Every map of this API is of texts.
  void CheckMap(const FieldDescriptor& field, const std::string& path) {
    for (int i = 0; i < reflection_.FieldSize(message_, &field); ++i) {
      const Message& entry = reflection_.GetRepeatedMessage(message_, &field, i);
      const Descriptor& type = *entry.GetDescriptor();
      const Reflection& access = *entry.GetReflection();
      const std::string key = access.GetString(entry, type.map_key());
      const std::string value = access.GetString(entry, type.map_value());
      const std::string entry_path = absl::StrCat(path, "[", Quoted(key), "]");
      CheckText(key, kDefaultMaxBytes, entry_path);
      CheckText(value, kDefaultMaxBytes, entry_path);
    }
  }

  // `index` is -1 for a field that is not repeated.
  void CheckValue(const FieldDescriptor& field, int index,
                  const std::vector<const FieldRule*>& rules, const std::string& path) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return CheckFields(index < 0 ? reflection_.GetMessage(message_, &field)
                                     : reflection_.GetRepeatedMessage(message_, &field, index),
                           path, violations_);
      case FieldDescriptor::CPPTYPE_STRING:
        return CheckString(index < 0 ? reflection_.GetString(message_, &field)
                                     : reflection_.GetRepeatedString(message_, &field, index),
                           rules, path);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return CheckNumber(index < 0 ? reflection_.GetDouble(message_, &field)
                                     : reflection_.GetRepeatedDouble(message_, &field, index),
                           rules, path);
      case FieldDescriptor::CPPTYPE_INT32:
        return CheckNumber(index < 0 ? reflection_.GetInt32(message_, &field)
                                     : reflection_.GetRepeatedInt32(message_, &field, index),
                           rules, path);
      case FieldDescriptor::CPPTYPE_INT64:
        return CheckNumber(index < 0 ? reflection_.GetInt64(message_, &field)
                                     : reflection_.GetRepeatedInt64(message_, &field, index),
                           rules, path);
      default:
        return;  // no value of another type is out of its range
    }
  }

  void CheckString(const std::string& value, const std::vector<const FieldRule*>& rules,
                   const std::string& path) {
    double max_bytes = kDefaultMaxBytes;
    for (const FieldRule* rule : rules) {
      if (rule->kind == Kind::kMaxBytes) max_bytes = rule->max;
      if (rule->kind == Kind::kNames && !IsOneOf(*rule, value)) {
        violations_->Add(path, NotAllowed(Quoted(value), absl::StrJoin(rule->names, ", ")));
        return;
      }
    }
    CheckText(value, max_bytes, path);
  }

  void CheckText(absl::string_view value, double max_bytes, const std::string& path) {
    if (value.size() <= max_bytes) return;
    violations_->Add(path, NotAllowed(absl::StrCat(value.size(), " bytes"),
                                      absl::StrCat("at most ", Number(max_bytes))));
  }

  template <typename T>
  void CheckNumber(T value, const std::vector<const FieldRule*>& rules, const std::string& path) {
    if (!std::isfinite(static_cast<double>(value))) {
      violations_->Add(path, NotAllowed(absl::StrCat(value), "finite numbers"));
      return;
    }
    for (const FieldRule* rule : rules) {
      if (rule->kind == Kind::kRange && !InRange(*rule, static_cast<double>(value))) {
        violations_->Add(path, NotAllowed(absl::StrCat(value), DescribeRange(*rule)));
      }
    }
  }

  const Message& message_;
  const Reflection& reflection_;
  const std::string path_;
  FieldViolations* const violations_;
};

}  // namespace

void CheckFields(const Message& message, absl::string_view path, FieldViolations* violations) {
  Checker(message, path, violations).Check();
}

std::string FieldPath(absl::string_view path, absl::string_view field) {
  return path.empty() ? std::string(field) : absl::StrCat(path, ".", field);
}

std::string NotAllowed(absl::string_view came, absl::string_view allowed) {
  return absl::StrCat(came, " is not allowed; allowed: ", allowed);
}

std::string Quoted(absl::string_view text) {
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxQuoted)), cut ? "...\"" : "\"");
}

}  // namespace accel::config
