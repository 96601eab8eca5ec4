# Mends the imported targets of the ROS 2 wheels. Passed to CMake as CMAKE_PROJECT_INCLUDE.
#
# The wheels were made in another place and their exported targets name include folders of that place
# (/opt/python/cp3xx/...), which do not exist here. After configuration those folders are dropped and the headers
# of the Python and NumPy in use are added.

function(mend_imported_targets)
  get_directory_property(targets IMPORTED_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
    if(NOT folders MATCHES "/opt/python/cp")
      continue()
    endif()
    list(FILTER folders EXCLUDE REGEX "^/opt/python/cp")
    list(APPEND folders ${Python3_INCLUDE_DIRS} ${Python3_NumPy_INCLUDE_DIRS})
    set_target_properties(${target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${folders}")
  endforeach()
endfunction()

find_package(Python3 REQUIRED COMPONENTS Interpreter Development NumPy)
cmake_language(DEFER CALL mend_imported_targets)
