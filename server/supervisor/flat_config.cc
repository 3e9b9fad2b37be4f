#include "server/supervisor/flat_config.h"

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/util/time_util.h"

namespace accel::supervisor {
namespace {

using google::protobuf::Duration;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using tracking::ConfigMap;
using tracking::ConfigValue;

void Flatten(const Message& message, const std::string& path, ConfigMap* out);

// `index` is -1 for a field that is not repeated.
ConfigValue Scalar(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool many = index >= 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return many ? r.GetRepeatedBool(message, field, index) : r.GetBool(message, field);
    case FieldDescriptor::CPPTYPE_INT32:
      return int64_t{many ? r.GetRepeatedInt32(message, field, index) : r.GetInt32(message, field)};
    case FieldDescriptor::CPPTYPE_INT64:
      return int64_t{many ? r.GetRepeatedInt64(message, field, index) : r.GetInt64(message, field)};
    case FieldDescriptor::CPPTYPE_UINT32:
      return int64_t{many ? r.GetRepeatedUInt32(message, field, index)
                          : r.GetUInt32(message, field)};
    case FieldDescriptor::CPPTYPE_UINT64:
      return static_cast<int64_t>(many ? r.GetRepeatedUInt64(message, field, index)
                                       : r.GetUInt64(message, field));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return double{many ? r.GetRepeatedFloat(message, field, index) : r.GetFloat(message, field)};
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r.GetRepeatedDouble(message, field, index) : r.GetDouble(message, field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return (many ? r.GetRepeatedEnum(message, field, index) : r.GetEnum(message, field))->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return many ? r.GetRepeatedString(message, field, index) : r.GetString(message, field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return std::monostate();
}

struct ToText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(const std::string& value) const { return value; }
  template <typename Number>
  std::string operator()(Number value) const {
    return absl::StrCat(value);
  }
};

void FlattenMap(const Message& message, const FieldDescriptor* field, const std::string& path,
                ConfigMap* out) {
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, field, i);
    const std::string name = absl::StrCat(path, ".", std::visit(ToText(), Scalar(entry, key, -1)));
    if (value->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Flatten(entry.GetReflection()->GetMessage(entry, value), name, out);
    } else {
      (*out)[name] = Scalar(entry, value, -1);
    }
  }
}

void FlattenList(const Message& message, const FieldDescriptor* field, const std::string& path,
                 ConfigMap* out) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, field);
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    for (int i = 0; i < size; ++i) {
      Flatten(reflection.GetRepeatedMessage(message, field, i), absl::StrCat(path, "[", i, "]"),
              out);
    }
    return;
  }
  std::vector<std::string> items;
  for (int i = 0; i < size; ++i) {
    items.push_back(std::visit(ToText(), Scalar(message, field, i)));
  }
  (*out)[path] = absl::StrCat("[", absl::StrJoin(items, ","), "]");
}

void Flatten(const Message& message, const std::string& path, ConfigMap* out) {
  if (message.GetDescriptor() == Duration::descriptor()) {
    Duration duration;
    duration.CopyFrom(message);
    (*out)[path] =
        static_cast<double>(google::protobuf::util::TimeUtil::DurationToNanoseconds(duration)) /
        1e9;
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = path.empty() ? field->name() : absl::StrCat(path, ".", field->name());
    if (field->is_map()) {
      FlattenMap(message, field, name, out);
    } else if (field->is_repeated()) {
      FlattenList(message, field, name, out);
    } else if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Flatten(message.GetReflection()->GetMessage(message, field), name, out);
    } else {
      (*out)[name] = Scalar(message, field, -1);
    }
  }
}

}  // namespace

ConfigMap FlatConfig(const accel::v1::Job& job) {
  accel::v1::JobSpec spec = job.spec();
  *spec.mutable_accelerator() = job.resolved_accelerator();
  const google::protobuf::Map<std::string, std::string> own = spec.tracking().config();
  spec.clear_tracking();
  ConfigMap config;
  Flatten(spec, "", &config);
  for (const auto& [name, value] : own) config[name] = value;
  return config;
}

}  // namespace accel::supervisor
