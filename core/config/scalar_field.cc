#include "core/config/scalar_field.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

namespace accel::config {
namespace {

using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kMaxDurationSeconds = 315576000000;

// yaml-cpp tags a scalar without quotes so.
bool IsPlain(const YAML::Node& node) { return node.Tag() == "?"; }

template <typename T>
bool ParseInteger(const std::string& text, T* value) {
  if (absl::SimpleAtoi(text, value)) return true;
  double number = 0;
  // 1e3 and 2.0 are whole numbers too; beyond 2^53 a double is not exact.
  if (!absl::SimpleAtod(text, &number) || number != std::floor(number) ||
      std::abs(number) > 9007199254740992.0 ||
      number < static_cast<double>(std::numeric_limits<T>::min()) ||
      number > static_cast<double>(std::numeric_limits<T>::max())) {
    return false;
  }
  *value = static_cast<T>(number);
  return true;
}

template <typename T>
std::string IntegerRange() {
  return absl::StrCat("whole numbers from ", std::numeric_limits<T>::min(), " to ",
                      std::numeric_limits<T>::max());
}

// YAML's spellings of what is not finite become those that absl reads; validation refuses them
// with the field's range.
bool ParseDouble(std::string text, double* value) {
  if (text == ".inf" || text == "-.inf" || text == ".nan") {
    text.erase(text.find('.'), 1);
  }
  return absl::SimpleAtod(text, value);
}

}  // namespace

bool ParseDuration(const std::string& text, google::protobuf::Duration* duration) {
  absl::Duration value;
  double seconds = 0;
  if (absl::SimpleAtod(text, &seconds)) {
    value = absl::Seconds(seconds);
  } else if (!absl::ParseDuration(text, &value)) {
    return false;
  }
  if (absl::AbsDuration(value) > absl::Seconds(kMaxDurationSeconds)) return false;
  duration->set_seconds(absl::IDivDuration(value, absl::Seconds(1), &value));
  duration->set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(value)));
  return true;
}

std::string AllowedScalars(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true, false";
    case FieldDescriptor::CPPTYPE_INT32:
      return IntegerRange<int32_t>();
    case FieldDescriptor::CPPTYPE_INT64:
      return IntegerRange<int64_t>();
    case FieldDescriptor::CPPTYPE_UINT32:
      return IntegerRange<uint32_t>();
    case FieldDescriptor::CPPTYPE_UINT64:
      return IntegerRange<uint64_t>();
    case FieldDescriptor::CPPTYPE_ENUM: {
      std::vector<std::string> names;
      for (int i = 0; i < field.enum_type()->value_count(); ++i) {
        names.push_back(field.enum_type()->value(i)->name());
      }
      return absl::StrJoin(names, ", ");
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return field.type() == FieldDescriptor::TYPE_BYTES ? "base64" : "a text";
    default:
      return "a number";
  }
}

bool SetScalar(const YAML::Node& node, const FieldDescriptor& field, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const std::string& text = node.Scalar();
  const auto put = [&](auto set, auto add, auto value) {
    if (field.is_repeated()) {
      (reflection.*add)(message, &field, value);
    } else {
      (reflection.*set)(message, &field, value);
    }
    return true;
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      return IsPlain(node) && YAML::convert<bool>::decode(node, value) &&
             put(&Reflection::SetBool, &Reflection::AddBool, value);
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      return ParseInteger(text, &value) && put(&Reflection::SetInt32, &Reflection::AddInt32, value);
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      return ParseInteger(text, &value) && put(&Reflection::SetInt64, &Reflection::AddInt64, value);
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      return ParseInteger(text, &value) &&
             put(&Reflection::SetUInt32, &Reflection::AddUInt32, value);
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      return ParseInteger(text, &value) &&
             put(&Reflection::SetUInt64, &Reflection::AddUInt64, value);
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      return ParseDouble(text, &value) &&
             put(&Reflection::SetDouble, &Reflection::AddDouble, value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value = 0;
      return ParseDouble(text, &value) &&
             put(&Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(value));
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = field.enum_type()->FindValueByName(text);
      return value != nullptr && put(&Reflection::SetEnum, &Reflection::AddEnum, value);
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value = text;
      return (field.type() != FieldDescriptor::TYPE_BYTES || absl::Base64Unescape(text, &value)) &&
             put(&Reflection::SetString, &Reflection::AddString, value);
    }
    default:
      return false;
  }
}

}  // namespace accel::config
