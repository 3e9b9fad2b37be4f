#include <sys/stat.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/config/field_rules.h"
#include "core/config/job_checks.h"

namespace accel::config {
namespace {

using accel::v1::Dataset;
using accel::v1::DataSpec;

constexpr size_t kMaxName = 4096;

// Opens a file or folder below a root.
absl::StatusOr<Fd> Open(absl::string_view name, const NodeLimits& limits) {
  ACCEL_ASSIGN_OR_RETURN(const DataFile file, ParseDataFile(name));
  const auto root = limits.data_roots.find(file.root);
  if (root == limits.data_roots.end()) {
    std::vector<std::string> roots;
    for (const auto& [root_name, path] : limits.data_roots) roots.push_back(root_name);
    return absl::NotFoundError(
        absl::StrCat("unknown root ", Quoted(file.root),
                     "; this node's roots: ", roots.empty() ? "none" : absl::StrJoin(roots, ", ")));
  }
  return OpenBeneath(root->second, file.path);
}

absl::StatusOr<mode_t> ModeOf(absl::string_view name, const NodeLimits& limits) {
  ACCEL_ASSIGN_OR_RETURN(const Fd fd, Open(name, limits));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus("cannot read", std::string(name), errno);
  return info.st_mode;
}

absl::Status CheckFile(absl::string_view name, const NodeLimits& limits) {
  ACCEL_ASSIGN_OR_RETURN(const mode_t mode, ModeOf(name, limits));
  if (S_ISREG(mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is no regular file"));
}

// A file of weights, or a folder that holds one or the index of several.
absl::Status CheckWeights(absl::string_view name, const NodeLimits& limits) {
  ACCEL_ASSIGN_OR_RETURN(const mode_t mode, ModeOf(name, limits));
  if (S_ISREG(mode)) return absl::OkStatus();
  if (!S_ISDIR(mode)) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(name), " is no file and no folder"));
  }
  const bool whole = Open(absl::StrCat(name, "/model.safetensors"), limits).ok();
  const bool index = Open(absl::StrCat(name, "/model.safetensors.index.json"), limits).ok();
  if (whole != index) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(name), " has ", whole ? "both " : "neither ", "model.safetensors ",
                   whole ? "and" : "nor", " model.safetensors.index.json"));
}

void CheckFileField(absl::string_view name, const NodeLimits& limits, const std::string& path,
                    FieldViolations* violations) {
  if (absl::Status status = CheckFile(name, limits); !status.ok()) {
    violations->Add(path, status.message());
  }
}

// One byte that can be no part of a number.
bool IsDelimiter(absl::string_view text) {
  return text.size() == 1 && absl::ascii_isascii(text[0]) && !absl::ascii_isalnum(text[0]) &&
         !absl::StrContains(absl::string_view("+-.\"\r\n\0", 7), text);
}

void CheckDataset(const Dataset& dataset, const NodeLimits& limits, const std::string& path,
                  FieldViolations* violations) {
  if (dataset.has_file()) {
    CheckFileField(dataset.file(), limits, FieldPath(path, "file"), violations);
  }
  if (dataset.npy().has_target_file()) {
    CheckFileField(dataset.npy().target_file(), limits, FieldPath(path, "npy.target_file"),
                   violations);
  }
  if (dataset.idx().has_target_file()) {
    CheckFileField(dataset.idx().target_file(), limits, FieldPath(path, "idx.target_file"),
                   violations);
  }
  if (dataset.csv().has_delimiter() && !IsDelimiter(dataset.csv().delimiter())) {
    violations->Add(FieldPath(path, "csv.delimiter"),
                    NotAllowed(Quoted(dataset.csv().delimiter()),
                               "one ASCII character that can be no part of a number"));
  }
  if (dataset.has_normalization() && dataset.normalization().has_scale() &&
      dataset.normalization().scale() == 0) {
    violations->Add(FieldPath(path, "normalization.scale"),
                    NotAllowed("0", "every other finite number"));
  }
  if (!dataset.has_bytes()) return;
  if (dataset.has_normalization()) {
    violations->Add(FieldPath(path, "normalization"), "not allowed with bytes, which are tokens");
  }
  if (dataset.feature_shape_size() > 0) {
    violations->Add(FieldPath(path, "feature_shape"),
                    "not allowed with bytes, whose samples have sequence_length tokens");
  }
}

}  // namespace

absl::StatusOr<DataFile> ParseDataFile(absl::string_view name) {
  const auto refuse = [&](absl::string_view reason) {
    return absl::InvalidArgumentError(absl::StrCat(
        Quoted(name), " ", reason, "; allowed: <root>/<path> with at most ", kMaxName, " bytes"));
  };
  if (name.size() > kMaxName) return refuse(absl::StrCat("has ", name.size(), " bytes"));
  if (absl::StrContains(name, '\0')) return refuse("holds a NUL byte");
  if (absl::StartsWith(name, "/")) return refuse("is an absolute path");
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() < 2) return refuse("names no root and path");
  for (absl::string_view part : parts) {
    if (part.empty()) return refuse("has an empty part");
    if (part == "." || part == "..") return refuse(absl::StrCat("has a \"", part, "\" part"));
  }
  return DataFile{std::string(parts[0]), std::string(name.substr(parts[0].size() + 1))};
}

void CheckInitFrom(const accel::v1::ModelSpec& model, const NodeLimits& limits,
                   absl::string_view path, FieldViolations* violations) {
  if (!model.has_init_from()) return;
  if (absl::Status status = CheckWeights(model.init_from(), limits); !status.ok()) {
    violations->Add(FieldPath(path, "init_from"), status.message());
  }
}

void CheckData(const DataSpec& data, const NodeLimits& limits, absl::string_view path,
               FieldViolations* violations) {
  if (data.has_train()) CheckDataset(data.train(), limits, FieldPath(path, "train"), violations);
  if (data.has_evaluation()) {
    CheckDataset(data.evaluation(), limits, FieldPath(path, "evaluation"), violations);
  }
  if (data.has_evaluation() && data.has_split()) {
    violations->Add(FieldPath(path, "split"),
                    "not allowed with evaluation, which is the held-out data");
  }
  if (data.has_evaluation_batch_size() && !data.has_evaluation() && !data.has_split()) {
    violations->Add(FieldPath(path, "evaluation_batch_size"),
                    "not allowed without evaluation or split: there is no held-out data");
  }
}

}  // namespace accel::config
