#ifndef ACCEL_CORE_ENGINE_CHECKPOINT_MANIFEST_H_
#define ACCEL_CORE_ENGINE_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/files.h"

namespace accel::engine {

// File name of the manifest in a checkpoint's folder:
//   {"format": "accel.checkpoint", "version": 1, "step": 400, "epoch": 3, "create_time_us": ...,
//    "files": [{"path": "model.safetensors", "bytes": 1234, "sha256": "<hexadecimal>"}, ...]}
// `files` are all others of the folder, by path.
inline constexpr char kManifestFileName[] = "manifest.json";

// What belongs to a complete checkpoint.
struct Manifest {
  struct File {
    std::string path;  // within the folder
    int64_t bytes = 0;
    std::string sha256;  // lower-case hexadecimal
  };

  int64_t step = 0;
  int64_t epoch = 0;
  int64_t create_time_us = 0;
  std::vector<File> files;
};

// SHA-256 of a file, lower-case hexadecimal.
absl::StatusOr<std::string> FileSha256(const std::filesystem::path& path);

// Digests every file of `folder` into `manifest.files` and writes the manifest there. Returns the
// size of all files with the manifest's.
absl::StatusOr<int64_t> WriteManifest(FileSystem& files, const std::filesystem::path& folder,
                                      Manifest manifest);

// Reads a folder's manifest and compares size and digest of every file it names. NOT_FOUND without
// a manifest; DATA_LOSS names the first file that is missing, truncated or changed.
absl::StatusOr<Manifest> VerifyManifest(FileSystem& files, const std::filesystem::path& folder);

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_CHECKPOINT_MANIFEST_H_
