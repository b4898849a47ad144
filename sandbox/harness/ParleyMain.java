import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.HashMap;
import java.util.Map;

/**
 * Runs the class Main and says under the run's secret that it came to its end; System.exit before that says nothing.
 * With names of classes as arguments it runs each of them, whatever became of those before, and names those that came to their end.
 * Each has all classes anew, so that no case sees what another left in their fields.
 *
 * The secret comes on stdin and is held by this method's frame only, which Java gives no way into.
 */
final class ParleyMain {
    private ParleyMain() {}

    public static void main(String[] arguments) throws Throwable {
        String secret = new BufferedReader(new InputStreamReader(System.in)).readLine();
        // The descriptor itself: /dev/fd would open it anew, which only its maker may.
        Constructor<FileDescriptor> numbered = FileDescriptor.class.getDeclaredConstructor(int.class);
        numbered.setAccessible(true);
        int number = Integer.parseInt(System.getenv("PARLEY_REPORT_FD"));
        FileOutputStream report = new FileOutputStream(numbered.newInstance(number));
        report.write("ready\n".getBytes());
        Map<String, byte[]> compiled = arguments.length == 0 ? Map.of() : compiled();
        for (String name : arguments) {
            try {
                run(new Anew(compiled).loadClass(name));
                report.write((secret + " ended " + name + "\n").getBytes());
            } catch (Throwable error) {
                // This case has not passed here; it is run alone.
            }
        }
        if (arguments.length == 0) {
            run(Class.forName("Main"));
            report.write((secret + " ended\n").getBytes());
        }
        report.close();
    }

    /** Reads all classes before any of them runs: a case could write others in the place of those that follow. */
    private static Map<String, byte[]> compiled() throws Throwable {
        Map<String, byte[]> found = new HashMap<>();
        for (File file : new File(".").listFiles((folder, name) -> name.endsWith(".class"))) {
            found.put(file.getName().replaceAll("\\.class$", ""), Files.readAllBytes(file.toPath()));
        }
        return found;
    }

    private static final class Anew extends ClassLoader {
        private final Map<String, byte[]> compiled;

        Anew(Map<String, byte[]> compiled) {
            super(ClassLoader.getPlatformClassLoader());
            this.compiled = compiled;
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            byte[] code = compiled.get(name);
            if (code == null) {
                throw new ClassNotFoundException(name);
            }
            return defineClass(name, code, 0, code.length);
        }
    }

    private static void run(Class<?> program) throws Throwable {
        Method main = program.getDeclaredMethod("main", String[].class);
        main.setAccessible(true);
        try {
            main.invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
    }
}
