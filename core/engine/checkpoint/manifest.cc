#include "core/engine/checkpoint/manifest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace accel::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kFormat[] = "accel.checkpoint";
constexpr int kVersion = 1;

absl::StatusOr<Manifest> ParseManifest(const std::string& text, const fs::path& path) {
  const auto malformed = [&path](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(path.string(), ": ", what));
  };
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("format", json()) != kFormat) {
    return malformed("not a manifest of a checkpoint");
  }
  if (document.value("version", json()) != kVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path.string(), ": version is ",
                                                      document.value("version", json()).dump(),
                                                      ", allowed is ", kVersion));
  }
  try {
    Manifest manifest{.step = document.at("step").get<int64_t>(),
                      .epoch = document.at("epoch").get<int64_t>(),
                      .create_time_us = document.at("create_time_us").get<int64_t>(),
                      .files = {}};
    for (const json& file : document.at("files")) {
      manifest.files.push_back({.path = file.at("path").get<std::string>(),
                                .bytes = file.at("bytes").get<int64_t>(),
                                .sha256 = file.at("sha256").get<std::string>()});
    }
    return manifest;
  } catch (const json::exception& error) {
    return malformed(error.what());
  }
}

absl::Status VerifyFile(const fs::path& folder, const Manifest::File& file) {
  const fs::path path = folder / file.path;
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  if (error) {
    return absl::DataLossError(
        absl::StrCat("checkpoint file ", path.string(), " is missing: ", error.message()));
  }
  if (static_cast<int64_t>(bytes) != file.bytes) {
    return absl::DataLossError(absl::StrCat("checkpoint file ", path.string(), " has ", bytes,
                                            " bytes, its manifest says ", file.bytes));
  }
  ACCEL_ASSIGN_OR_RETURN(const std::string sha256, FileSha256(path));
  if (sha256 != file.sha256) {
    return absl::DataLossError(absl::StrCat("checkpoint file ", path.string(), " has sha-256 ",
                                            sha256, ", its manifest says ", file.sha256));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> FileSha256(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return ErrnoStatus("cannot open", path, errno);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        &EVP_MD_CTX_free);
  std::vector<char> chunk(1 << 20);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  bool ok = context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  while (ok && stream) {
    stream.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    ok = EVP_DigestUpdate(context.get(), chunk.data(), static_cast<size_t>(stream.gcount())) == 1;
  }
  if (stream.bad()) return ErrnoStatus("cannot read", path, errno);
  if (!ok || EVP_DigestFinal_ex(context.get(), digest.data(), &size) != 1) {
    return absl::InternalError(absl::StrCat("sha-256 of ", path.string(), " failed"));
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

absl::StatusOr<int64_t> WriteManifest(FileSystem& files, const fs::path& folder,
                                      Manifest manifest) {
  std::error_code error;
  int64_t total = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    ACCEL_ASSIGN_OR_RETURN(std::string sha256, FileSha256(entry.path()));
    const auto bytes = static_cast<int64_t>(entry.file_size(error));
    if (error) return ErrnoStatus("cannot read", entry.path(), error.value());
    total += bytes;
    manifest.files.push_back({entry.path().filename(), bytes, std::move(sha256)});
  }
  if (error) return ErrnoStatus("cannot list", folder, error.value());
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  json listed = json::array();
  for (const Manifest::File& file : manifest.files) {
    listed.push_back({{"path", file.path}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  const std::string text = json{
      {"format", kFormat},
      {"version", kVersion},
      {"step", manifest.step},
      {"epoch", manifest.epoch},
      {"create_time_us", manifest.create_time_us},
      {"files", listed}}.dump(2);
  ACCEL_RETURN_IF_ERROR(files.WriteDurably(folder / kManifestFileName, text));
  return total + static_cast<int64_t>(text.size());
}

absl::StatusOr<Manifest> VerifyManifest(FileSystem& files, const fs::path& folder) {
  const fs::path path = folder / kManifestFileName;
  ACCEL_ASSIGN_OR_RETURN(const std::string text, files.Read(path));
  ACCEL_ASSIGN_OR_RETURN(Manifest manifest, ParseManifest(text, path));
  for (const Manifest::File& file : manifest.files) {
    ACCEL_RETURN_IF_ERROR(VerifyFile(folder, file));
  }
  return manifest;
}

}  // namespace accel::engine
