#include "core/engine/checkpoint/model_files.h"

#include <ATen/core/grad_mode.h>
#include <fcntl.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/files.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/json_file.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Entry = SafetensorsReader::Entry;

constexpr char kModelFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";
constexpr size_t kMaxIndexBytes = 100'000'000;

void AddState(const torch::nn::Module& module, const std::string& prefix, NamedTensors* tensors) {
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    tensors->emplace_back(prefix + item.key(), item.value().detach());
  }
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    tensors->emplace_back(prefix + item.key(), item.value());
  }
  for (const auto& child : module.named_children()) {
    AddState(*child.value(), absl::StrCat(prefix, child.key(), "."), tensors);
  }
}

// A tensor larger than the limit is a shard of its own and does not end the one being filled.
std::vector<NamedTensors> SplitIntoShards(const NamedTensors& tensors, int64_t max_bytes) {
  std::vector<NamedTensors> shards;
  NamedTensors open_shard;
  int64_t open_bytes = 0;
  for (const auto& named : tensors) {
    const auto bytes = static_cast<int64_t>(named.second.nbytes());
    if (bytes > max_bytes) {
      shards.push_back({named});
      continue;
    }
    if (open_bytes + bytes > max_bytes) {
      shards.push_back(std::exchange(open_shard, {}));
      open_bytes = 0;
    }
    open_shard.push_back(named);
    open_bytes += bytes;
  }
  if (!open_shard.empty()) shards.push_back(std::move(open_shard));
  return shards;
}

NamedTensors OnCpu(NamedTensors tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.to(at::kCPU);
  return tensors;
}

std::string Describe(at::ScalarType type, at::IntArrayRef shape) {
  return absl::StrCat(c10::toString(type), " [", absl::StrJoin(shape, ", "), "]");
}

bool TypeFits(at::ScalarType saved, at::ScalarType wanted, TypeRule rule) {
  if (saved == wanted) return true;
  return rule == TypeRule::kConvertFloats && c10::isFloatingType(saved) &&
         c10::isFloatingType(wanted);
}

// What a source lacks, has too much of, and has in another shape or type than the target.
class Differences {
 public:
  void Missing(const std::string& name, const at::Tensor& wanted) {
    missing_.push_back(absl::StrCat(name, " ", Describe(wanted.scalar_type(), wanted.sizes())));
  }
  void Unexpected(const std::string& name) { unexpected_.push_back(name); }
  void Other(const std::string& name, const std::string& saved, const at::Tensor& wanted) {
    other_.push_back(absl::StrCat(name, " is ", saved, " and must be ",
                                  Describe(wanted.scalar_type(), wanted.sizes())));
  }

  absl::Status Result(absl::string_view where) const {
    std::vector<std::string> parts;
    Append("missing", missing_, &parts);
    Append("unexpected", unexpected_, &parts);
    Append("of another shape or type", other_, &parts);
    if (parts.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(where, " is of another model: ", absl::StrJoin(parts, "; ")));
  }

 private:
  static void Append(absl::string_view what, const std::vector<std::string>& names,
                     std::vector<std::string>* parts) {
    constexpr size_t kMaxShown = 8;
    if (names.empty()) return;
    const auto end = names.begin() + static_cast<int64_t>(std::min(names.size(), kMaxShown));
    parts->push_back(absl::StrCat(
        what, ": ", absl::StrJoin(names.begin(), end, ", "),
        names.size() > kMaxShown ? absl::StrCat(" and ", names.size() - kMaxShown, " more") : ""));
  }

  std::vector<std::string> missing_;
  std::vector<std::string> unexpected_;
  std::vector<std::string> other_;
};

// Tensors by name, each with its type and shape.
using Index = std::map<std::string, std::pair<at::ScalarType, std::vector<int64_t>>>;

absl::Status CheckSame(Index saved, absl::string_view where, TypeRule rule,
                       const NamedTensors& target) {
  Differences differences;
  for (const auto& [name, tensor] : target) {
    const auto found = saved.find(name);
    if (found == saved.end()) {
      differences.Missing(name, tensor);
      continue;
    }
    const auto& [type, shape] = found->second;
    if (tensor.sizes() != shape || !TypeFits(type, tensor.scalar_type(), rule)) {
      differences.Other(name, Describe(type, shape), tensor);
    }
    saved.erase(found);
  }
  for (const auto& [name, entry] : saved) differences.Unexpected(name);
  return differences.Result(where);
}

absl::StatusOr<std::string> ReadText(const Fd& fd, absl::string_view name) {
  std::string text;
  char chunk[1 << 16];
  for (;;) {
    const ssize_t got = read(fd.get(), chunk, sizeof(chunk));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus("cannot read", std::string(name), errno);
    if (got == 0) return text;
    text.append(chunk, static_cast<size_t>(got));
    if (text.size() > kMaxIndexBytes) return MalformedData(name, "is too large for an index");
  }
}

// The shard of each tensor, as an index file says.
absl::StatusOr<std::map<std::string, std::string>> ParseIndex(const std::string& text,
                                                              const std::string& name) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object()) {
    return MalformedData(name, "is no index of shards: it has no weight_map");
  }
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, file] : document["weight_map"].items()) {
    if (!file.is_string()) return MalformedData(name, "weight_map has a value that is no string");
    const auto& shard = file.get_ref<const std::string&>();
    if (shard.empty() || absl::StrContains(shard, '/') || shard == "." || shard == "..") {
      return MalformedData(
          name, absl::StrCat("weight_map has \"", shard, "\", which is no file beside the index"));
    }
    shards[tensor] = shard;
  }
  return shards;
}

// A model's open files.
class ModelReader {
 public:
  explicit ModelReader(absl::string_view where) : where_(where) {}

  absl::Status AddFile(Fd file, const std::string& name) {
    ACCEL_ASSIGN_OR_RETURN(SafetensorsReader reader,
                           SafetensorsReader::Open(std::move(file), name));
    for (const Entry& entry : reader.entries()) {
      if (!index_.emplace(entry.name, std::pair(entry.dtype, entry.shape)).second) {
        return MalformedData(name, absl::StrCat("tensor ", entry.name, " is in two shards"));
      }
    }
    readers_.push_back(std::move(reader));
    return absl::OkStatus();
  }

  absl::Status AddShards(const OpenModelFile& open, const std::map<std::string, std::string>& map) {
    std::set<std::string> files;
    for (const auto& [tensor, file] : map) files.insert(file);
    for (const std::string& file : files) {
      ACCEL_ASSIGN_OR_RETURN(Fd fd, open(file));
      ACCEL_RETURN_IF_ERROR(AddFile(std::move(fd), absl::StrCat(where_, "/", file)));
      for (const Entry& entry : readers_.back().entries()) {
        const auto found = map.find(entry.name);
        if (found == map.end() || found->second != file) {
          return MalformedData(
              absl::StrCat(where_, "/", file),
              absl::StrCat("has tensor ", entry.name, ", which the index does not say"));
        }
      }
    }
    for (const auto& [tensor, file] : map) {
      if (index_.count(tensor) == 0) {
        return MalformedData(absl::StrCat(where_, "/", file),
                             absl::StrCat("has no tensor ", tensor, ", which the index says"));
      }
    }
    return absl::OkStatus();
  }

  absl::Status CopyTo(const NamedTensors& target, TypeRule rule) const {
    ACCEL_RETURN_IF_ERROR(CheckSame(index_, where_, rule, target));
    std::map<std::string, at::Tensor> by_name(target.begin(), target.end());
    at::NoGradGuard no_grad;
    for (const SafetensorsReader& reader : readers_) {
      for (const Entry& entry : reader.entries()) {
        ACCEL_ASSIGN_OR_RETURN(const at::Tensor saved, reader.Read(entry.name));
        by_name.at(entry.name).copy_(saved);
      }
    }
    return absl::OkStatus();
  }

 private:
  const std::string where_;
  std::vector<SafetensorsReader> readers_;
  Index index_;
};

}  // namespace

NamedTensors StateDict(const Model& model) {
  NamedTensors tensors;
  AddState(model, "", &tensors);
  return tensors;
}

absl::Status WriteModelFiles(const fs::path& folder, const NamedTensors& tensors,
                             int64_t max_shard_bytes) {
  const std::vector<NamedTensors> shards = SplitIntoShards(tensors, max_shard_bytes);
  if (shards.size() <= 1) return WriteSafetensors(folder / kModelFile, OnCpu(tensors));
  json weight_map = json::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file =
        absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, shards.size());
    for (const auto& [name, tensor] : shards[i]) {
      weight_map[name] = file;
      total += static_cast<int64_t>(tensor.nbytes());
    }
    ACCEL_RETURN_IF_ERROR(WriteSafetensors(folder / file, OnCpu(shards[i])));
  }
  return WriteJson(folder / kIndexFile,
                   {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}});
}

absl::Status LoadModelFiles(const OpenModelFile& open, absl::string_view where, TypeRule rule,
                            const NamedTensors& target) {
  ModelReader reader(where);
  absl::StatusOr<Fd> whole = open(kModelFile);
  absl::StatusOr<Fd> index = open(kIndexFile);
  if (whole.ok() && index.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        where, " has ", kModelFile, " and ", kIndexFile, ": one of them is of another model"));
  }
  if (whole.ok()) {
    ACCEL_RETURN_IF_ERROR(reader.AddFile(*std::move(whole), absl::StrCat(where, "/", kModelFile)));
    return reader.CopyTo(target, rule);
  }
  if (!absl::IsNotFound(whole.status())) return whole.status();
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(where, " has neither ", kModelFile, " nor ", kIndexFile));
  }
  ACCEL_RETURN_IF_ERROR(index.status());
  const std::string index_name = absl::StrCat(where, "/", kIndexFile);
  ACCEL_ASSIGN_OR_RETURN(const std::string text, ReadText(*index, index_name));
  ACCEL_ASSIGN_OR_RETURN(const auto shards, ParseIndex(text, index_name));
  ACCEL_RETURN_IF_ERROR(reader.AddShards(open, shards));
  return reader.CopyTo(target, rule);
}

absl::Status LoadModelFolder(const fs::path& folder, const NamedTensors& target) {
  const auto open_file = [&](const std::string& name) -> absl::StatusOr<Fd> {
    const fs::path path = folder / name;
    Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus("cannot open", path, errno);
    return fd;
  };
  return LoadModelFiles(open_file, folder.string(), TypeRule::kSame, target);
}

absl::Status LoadInitialWeights(absl::string_view name, const DataRoots& roots,
                                const NamedTensors& target) {
  const auto open_beside = [&](const std::string& file) {
    return OpenDataFile(absl::StrCat(name, "/", file), roots);
  };
  absl::StatusOr<Fd> file = OpenDataFile(name, roots);
  if (file.ok()) {
    ModelReader reader(name);
    ACCEL_RETURN_IF_ERROR(reader.AddFile(*std::move(file), std::string(name)));
    return reader.CopyTo(target, TypeRule::kConvertFloats);
  }
  if (!absl::IsInvalidArgument(file.status())) return file.status();
  return LoadModelFiles(open_beside, name, TypeRule::kConvertFloats, target);
}

absl::Status CopyByName(const NamedTensors& source, absl::string_view where,
                        const NamedTensors& target) {
  Index index;
  for (const auto& [name, tensor] : source) {
    index.emplace(name, std::pair(tensor.scalar_type(), tensor.sizes().vec()));
  }
  ACCEL_RETURN_IF_ERROR(CheckSame(std::move(index), where, TypeRule::kSame, target));
  const std::map<std::string, at::Tensor> saved(source.begin(), source.end());
  at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : target) tensor.copy_(saved.at(name));
  return absl::OkStatus();
}

}  // namespace accel::engine
