#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/status_macros.h"
#include "core/config/accelerator.h"
#include "core/config/accelerator_defaults.h"
#include "core/config/accelerator_warnings.h"
#include "core/config/field_rules.h"
#include "google/protobuf/util/message_differencer.h"

namespace accel::config {
namespace {

using accel::v1::AcceleratorConfig;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::util::MessageDifferencer;

template <typename Recipe>
void FoldRecipe(Recipe* recipe) {
  if (recipe->has_fp8_format()) absl::AsciiStrToUpper(recipe->mutable_fp8_format());
  if (recipe->has_amax_compute_algo()) absl::AsciiStrToLower(recipe->mutable_amax_compute_algo());
}

// The spelling that Accelerate's constructors store.
void FoldNames(AcceleratorConfig* config) {
  if (config->has_te_recipe_kwargs()) FoldRecipe(config->mutable_te_recipe_kwargs());
  if (!config->has_fp8_recipe_kwargs()) return;
  FoldRecipe(config->mutable_fp8_recipe_kwargs());
  if (config->fp8_recipe_kwargs().has_backend()) {
    absl::AsciiStrToUpper(config->mutable_fp8_recipe_kwargs()->mutable_backend());
  }
}

bool Has(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  return field.is_repeated() ? reflection.FieldSize(message, &field) > 0
                             : reflection.HasField(message, &field);
}

// Whether two messages of one type are the same in one field.
bool SameField(const Message& a, const Message& b, const FieldDescriptor& field) {
  // The comparison of single fields takes an absent one for one that holds the type's zero.
  if (Has(a, field) != Has(b, field)) return false;
  MessageDifferencer differencer;
  const std::vector<const FieldDescriptor*> fields = {&field};
  return differencer.CompareWithFields(a, b, fields, fields);
}

// Where dropping an explicit value that equals the default would let another one apply: the
// callee's own default differs.
bool IsKeptWhenEqual(const FieldDescriptor& field) {
  return field.name() == "timeout" || field.name() == "fp8_format" ||
         field.name() == "amax_compute_algo";
}

// to_kwargs(): drops the fields of `handler` that equal those of `defaults`.
void DropDefaults(const Message& defaults, Message* handler) {
  const Descriptor& descriptor = *handler->GetDescriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!IsKeptWhenEqual(field) && SameField(defaults, *handler, field)) {
      handler->GetReflection()->ClearField(handler, &field);
    }
  }
}

// Accelerate writes the timeout of another backend than the default one into the handler as it
// constructs it, so that to_kwargs() always shows it.
void CompleteTimeout(accel::v1::InitProcessGroupKwargs* kwargs) {
  if (!kwargs->has_timeout() && kwargs->has_backend() && kwargs->backend() != "nccl") {
    kwargs->mutable_timeout()->set_seconds(1800);
  }
}

AcceleratorConfig Difference(AcceleratorConfig config) {
  if (config.has_init_process_group_kwargs()) {
    CompleteTimeout(config.mutable_init_process_group_kwargs());
  }
  const AcceleratorConfig& defaults = UpstreamDefaults();
  const Descriptor& descriptor = *AcceleratorConfig::descriptor();
  const Reflection& reflection = *AcceleratorConfig::GetReflection();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor& field = *descriptor.field(i);
    if (!Has(config, field)) continue;
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      DropDefaults(reflection.GetMessage(defaults, &field),
                   reflection.MutableMessage(&config, &field));
    } else if (SameField(defaults, config, field)) {
      reflection.ClearField(&config, &field);
    }
  }
  // An empty map of options is the default one.
  if (config.has_ddp_kwargs() && config.ddp_kwargs().comm_state_option().ByteSizeLong() == 0) {
    config.mutable_ddp_kwargs()->clear_comm_state_option();
  }
  return config;
}

// Copies what `message` lacks.
void FillMissing(const Message& defaults, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const std::unique_ptr<Message> missing(defaults.New());
  missing->CopyFrom(defaults);
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(defaults, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!Has(*message, *field)) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_repeated()) {
      FillMissing(reflection.GetMessage(defaults, field),
                  reflection.MutableMessage(message, field));
    }
    reflection.ClearField(missing.get(), field);
  }
  message->MergeFrom(*missing);
}

}  // namespace

absl::StatusOr<ResolvedAccelerator> ResolveAccelerator(const AcceleratorConfig& config,
                                                       absl::string_view device,
                                                       absl::string_view prefix) {
  FieldViolations violations;
  if (device != "cpu" && device != "cuda") {
    violations.Add("device", NotAllowed(Quoted(device), "cpu, cuda"));
  }
  ValidateAccelerator(config, device, prefix, &violations);
  ACCEL_RETURN_IF_ERROR(violations.ToStatus());

  ResolvedAccelerator result;
  result.resolved = config;
  FoldNames(&result.resolved);
  result.difference = Difference(result.resolved);
  FillMissing(ApplicableDefaults(result.resolved, device), &result.resolved);
  result.warnings = AcceleratorWarnings(config, result.difference, device, prefix);
  return result;
}

}  // namespace accel::config
