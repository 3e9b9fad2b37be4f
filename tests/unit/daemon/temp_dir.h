#ifndef ACCEL_TESTS_UNIT_DAEMON_TEMP_DIR_H_
#define ACCEL_TESTS_UNIT_DAEMON_TEMP_DIR_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace accel::daemon {

// A folder that goes with the test.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "accel-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace accel::daemon

#endif  // ACCEL_TESTS_UNIT_DAEMON_TEMP_DIR_H_
