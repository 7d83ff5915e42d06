# kv::options: what every target of ours is built with.
option(KV_WERROR "Treat warnings as errors" ON)
add_library(kv_options INTERFACE)
add_library(kv::options ALIAS kv_options)
target_include_directories(kv_options INTERFACE "${PROJECT_SOURCE_DIR}")
# The one promise is equal bits, so no expression may be fused into a multiply-add by the compiler's
# choice: where the arithmetic wants one it says fma. Never any flag of the fast-math family.
# Ids and lengths are signed and containers' sizes are not, so a conversion of the sign is no warning
# (clang's -Wconversion includes it, GCC's does not); a comparison of the two is. WebAssembly's sizes have 32 bits,
# so there the same conversion is called a shortening.
target_compile_options(kv_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-ffp-contract=off>
  $<$<COMPILE_LANG_AND_ID:CXX,Clang,AppleClang>:-Wno-sign-conversion$<$<BOOL:${EMSCRIPTEN}>:;-Wno-shorten-64-to-32>>
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;-Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off>)
# A target with the property KV_ONLY_WARN is a learner's: what is half written is no error.
if(KV_WERROR)
  set(strict "$<NOT:$<BOOL:$<TARGET_PROPERTY:KV_ONLY_WARN>>>")
  target_compile_options(kv_options INTERFACE
    $<$<AND:${strict},$<COMPILE_LANGUAGE:CXX>>:-Werror>
    $<$<AND:${strict},$<COMPILE_LANGUAGE:CUDA>>:-Werror=all-warnings>)
endif()
target_compile_definitions(kv_options INTERFACE KV_HAVE_CUDA=$<BOOL:${KV_HAVE_CUDA}>)
