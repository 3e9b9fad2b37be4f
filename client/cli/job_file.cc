#include "client/cli/job_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/config/text_format.h"

namespace accel::cli {
namespace {

constexpr size_t kMaxBytes = 1 << 20;

absl::Status InFile(const std::string& file, const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status named(status.code(),
                     absl::StrCat(file == "-" ? "standard input" : file, ": ", status.message()));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

std::string ReadStream(std::istream& stream) {
  std::string text(kMaxBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  return text;
}

// Names of the fields on the way to a value. A map's key may hold dots and ends the path.
std::vector<std::string> SplitPath(absl::string_view path) {
  std::vector<std::string> names;
  const google::protobuf::Descriptor* message = v1::JobSpec::descriptor();
  while (message != nullptr) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(path, absl::MaxSplits('.', 1));
    names.emplace_back(parts.first);
    path = parts.second;
    const google::protobuf::FieldDescriptor* field = message->FindFieldByName(names.back());
    const bool is_map = field != nullptr && field->is_map();
    message = field == nullptr || is_map ? nullptr : field->message_type();
    if (path.empty()) return names;
    if (message == nullptr) names.emplace_back(path);
  }
  return names;
}

// Clears the value that an override replaces; merging would add to a list.
void ClearValue(const std::vector<std::string>& names, google::protobuf::Message* message) {
  for (size_t i = 0; i < names.size(); ++i) {
    const auto* field = message->GetDescriptor()->FindFieldByName(names[i]);
    if (field == nullptr || (field->is_map() && i + 1 < names.size())) return;
    if (i + 1 == names.size()) return message->GetReflection()->ClearField(message, field);
    if (field->is_repeated() || field->message_type() == nullptr) return;
    if (!message->GetReflection()->HasField(*message, field)) return;
    message = message->GetReflection()->MutableMessage(message, field);
  }
}

absl::Status ApplyOverride(const std::string& override, v1::JobSpec* spec) {
  const size_t equals = override.find('=');
  if (equals == std::string::npos || equals == 0 || override.find('\n') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("--set ", override, ": must be path=value, as in --set loop.num_epochs=2"));
  }
  const std::vector<std::string> names = SplitPath(override.substr(0, equals));
  std::string yaml;
  for (size_t i = 0; i < names.size(); ++i) {
    absl::StrAppend(&yaml, i == 0 ? "" : "\n", std::string(i, ' '), names[i], ":");
  }
  absl::StrAppend(&yaml, " ", override.substr(equals + 1), "\n");
  v1::JobSpec change;
  if (const absl::Status status = config::ParseMessage(yaml, &change); !status.ok()) {
    return InFile(absl::StrCat("--set ", override), status);
  }
  ClearValue(names, spec);
  spec->MergeFrom(change);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> ReadInput(const Io& io, const std::string& file) {
  std::string text;
  if (file == "-") {
    text = ReadStream(io.in);
  } else {
    std::ifstream stream(file, std::ios::binary);
    if (stream) text = ReadStream(stream);
    if (!stream.is_open() || stream.bad()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot read ", file, ": ", std::strerror(errno)));
    }
  }
  if (text.size() > kMaxBytes) {
    return InFile(file, absl::InvalidArgumentError(
                            absl::StrCat("has more than the ", kMaxBytes, " bytes allowed")));
  }
  return text;
}

absl::StatusOr<v1::JobSpec> ReadJobFile(const Io& io, const std::string& file,
                                        const std::vector<std::string>& overrides) {
  ACCEL_ASSIGN_OR_RETURN(const std::string text, ReadInput(io, file));
  v1::JobSpec spec;
  ACCEL_RETURN_IF_ERROR(InFile(file, config::ParseMessage(text, &spec)));
  for (const std::string& override : overrides) {
    ACCEL_RETURN_IF_ERROR(ApplyOverride(override, &spec));
  }
  return spec;
}

absl::StatusOr<AcceleratorFile> ReadAcceleratorFile(const Io& io, const std::string& file) {
  ACCEL_ASSIGN_OR_RETURN(const std::string text, ReadInput(io, file));
  AcceleratorFile result;
  const absl::Status as_config = config::ParseMessage(text, &result.config);
  if (as_config.ok()) return result;
  // No field of one message is a field of the other, so at most one of the two readings is right.
  v1::JobSpec spec;
  const absl::Status as_job = config::ParseMessage(text, &spec);
  if (!as_job.ok()) {
    const bool is_job = text.find("accelerator:") != std::string::npos ||
                        text.find("\"accelerator\"") != std::string::npos;
    return InFile(file, is_job ? as_job : as_config);
  }
  result.config = spec.accelerator();
  if (spec.has_device()) result.device = spec.device();
  return result;
}

}  // namespace accel::cli
