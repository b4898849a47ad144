import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/**
 * Runs the class Main and says under the run's secret that it came to its end; System.exit before that says nothing.
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
        Method main = Class.forName("Main").getDeclaredMethod("main", String[].class);
        main.setAccessible(true);
        try {
            main.invoke(null, (Object) new String[0]);
        } catch (InvocationTargetException error) {
            throw error.getCause();
        }
        report.write((secret + " ended\n").getBytes());
        report.close();
    }
}
