# LibTorch from the PyPI wheel, as the target accel::libtorch.
#
# The wheel's own TorchConfig.cmake asks for a CUDA toolkit even where nothing of CUDA is used, so the
# target is defined here: libtorch_cpu and libc10 only. What needs libtorch_cuda is in
# core/engine/cuda, a module opened at run time.
#
# Input:  ACCEL_TORCH_ROOT  the installed `torch` package (the folder with lib/ and include/)
# Output: accel::libtorch, ACCEL_TORCH_SITE_PACKAGES, ACCEL_TORCH_INCLUDE_DIR, ACCEL_TORCH_VERSION

set(ACCEL_TORCH_SUPPORTED_VERSION 2.15.0)
set(_accel_venv "${CMAKE_SOURCE_DIR}/build/venv/torch")

if(NOT ACCEL_TORCH_ROOT)
  file(GLOB _torch_candidates LIST_DIRECTORIES true
       "${_accel_venv}/lib/python3*/site-packages/torch")
  list(APPEND _torch_candidates "")
  list(GET _torch_candidates 0 _torch_default)
  set(ACCEL_TORCH_ROOT "${_torch_default}"
      CACHE PATH "The installed torch package: the folder with lib/ and include/" FORCE)
endif()

if(NOT EXISTS "${ACCEL_TORCH_ROOT}/lib/libtorch_cpu.so"
   OR NOT EXISTS "${ACCEL_TORCH_ROOT}/include/ATen")
  message(FATAL_ERROR
    "libtorch not found: ACCEL_TORCH_ROOT is '${ACCEL_TORCH_ROOT}'\n"
    "run deploy/bootstrap, which installs it in build/venv/torch, or configure with "
    "-DACCEL_TORCH_ROOT=<site-packages>/torch of torch ${ACCEL_TORCH_SUPPORTED_VERSION}")
endif()

get_filename_component(ACCEL_TORCH_SITE_PACKAGES "${ACCEL_TORCH_ROOT}/.." REALPATH)

# The engine uses c10d classes that have no stable interface: no other version will do.
file(STRINGS "${ACCEL_TORCH_ROOT}/version.py" _torch_version_line REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = '([0-9.]+).*'$" "\\1"
       ACCEL_TORCH_VERSION "${_torch_version_line}")
if(NOT ACCEL_TORCH_VERSION VERSION_EQUAL ACCEL_TORCH_SUPPORTED_VERSION)
  message(FATAL_ERROR
    "torch ${ACCEL_TORCH_VERSION} found in '${ACCEL_TORCH_ROOT}', "
    "torch ${ACCEL_TORCH_SUPPORTED_VERSION} is needed: run deploy/bootstrap")
endif()

# torch/include holds an old google/protobuf that would hide the system's: include through links to
# all other entries. For the venv that deploy/bootstrap makes they lie in that venv, so that all
# build folders share them, and what ccache holds.
set(ACCEL_TORCH_INCLUDE_DIR "${CMAKE_BINARY_DIR}/libtorch/include")
cmake_path(IS_PREFIX _accel_venv "${ACCEL_TORCH_ROOT}" _torch_is_ours)
if(_torch_is_ours)
  set(ACCEL_TORCH_INCLUDE_DIR "${_accel_venv}/include/libtorch")
endif()
file(GLOB _torch_headers RELATIVE "${ACCEL_TORCH_ROOT}/include" "${ACCEL_TORCH_ROOT}/include/*")
list(REMOVE_ITEM _torch_headers google)
file(MAKE_DIRECTORY "${ACCEL_TORCH_INCLUDE_DIR}")
foreach(_entry IN LISTS _torch_headers)
  set(_link "${ACCEL_TORCH_INCLUDE_DIR}/${_entry}")
  set(_current "")
  if(IS_SYMLINK "${_link}")
    file(READ_SYMLINK "${_link}" _current)
  endif()
  if(NOT _current STREQUAL "${ACCEL_TORCH_ROOT}/include/${_entry}")
    file(CREATE_LINK "${ACCEL_TORCH_ROOT}/include/${_entry}" "${_link}" SYMBOLIC)
  endif()
endforeach()

# ProcessGroupGloo.hpp names gloo's types; the wheel brings gloo's code without its headers. Any
# gloo's headers do, as long as nobody calls gloo itself.
find_path(ACCEL_GLOO_INCLUDE_DIR gloo/transport/device.h REQUIRED)

# libtorch_cpu needs libcudart and libcupti to load, wherever the wheels put them.
file(GLOB _torch_cuda_libraries
     "${ACCEL_TORCH_SITE_PACKAGES}/nvidia/*/lib/libcudart.so.*"
     "${ACCEL_TORCH_SITE_PACKAGES}/nvidia/*/lib/libcupti.so.*")
set(_torch_library_dirs "${ACCEL_TORCH_ROOT}/lib")
foreach(_library IN LISTS _torch_cuda_libraries)
  get_filename_component(_dir "${_library}" DIRECTORY)
  list(APPEND _torch_library_dirs "${_dir}")
endforeach()
list(REMOVE_DUPLICATES _torch_library_dirs)
set(_torch_rpath_options "")
foreach(_dir IN LISTS _torch_library_dirs)
  list(APPEND _torch_rpath_options "-Wl,-rpath,${_dir}")
endforeach()

add_library(accel::libtorch INTERFACE IMPORTED GLOBAL)
target_compile_features(accel::libtorch INTERFACE cxx_std_20)
target_compile_definitions(accel::libtorch INTERFACE USE_C10D_GLOO USE_DISTRIBUTED)
target_include_directories(accel::libtorch SYSTEM INTERFACE
  "${ACCEL_TORCH_INCLUDE_DIR}" "${ACCEL_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
if(NOT ACCEL_GLOO_INCLUDE_DIR STREQUAL "/usr/include")
  target_include_directories(accel::libtorch SYSTEM INTERFACE "${ACCEL_GLOO_INCLUDE_DIR}")
endif()
# Kernels register themselves when the library is loaded: it must stay even where no symbol of it is
# used. One argument, so that CMake can neither reorder nor merge its parts.
string(JOIN "," _torch_link
       -Wl,--push-state,--no-as-needed "${ACCEL_TORCH_ROOT}/lib/libtorch_cpu.so"
       "${ACCEL_TORCH_ROOT}/lib/libc10.so" --pop-state)
target_link_libraries(accel::libtorch INTERFACE "${_torch_link}")
target_link_options(accel::libtorch INTERFACE ${_torch_rpath_options})

message(STATUS "libtorch ${ACCEL_TORCH_VERSION}: ${ACCEL_TORCH_ROOT}")
